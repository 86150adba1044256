from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from tpulint.dev import new_rule, render_docs

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with two groups, one of them empty."""
    package = tmp_path / "rules" / "tpulint_rules"
    for group in ("placement", "trace_hazards"):
        (package / group).mkdir(parents=True)
        (package / group / "__init__.py").touch()
    (package / "placement" / "cuda_method.py").write_text('rule = Rule(\n    "TPU104", ...)\n')
    return tmp_path


@pytest.mark.parametrize(("group", "code"), [("placement", "TPU105"), ("trace_hazards", "TPU201")])
def test_a_new_rule_gets_the_next_code_of_its_group(checkout: Path, group: str, code: str) -> None:
    module, example, clean = new_rule.scaffold(checkout, group, "odd_call")
    assert f'Rule("{code}", "odd call"' in module.read_text()
    assert f"# want: {code}" in example.read_text()
    assert checkout / "fixtures" / "odd_call" / "clean" / "before.py" == clean
    for path in (module, example, clean):
        ast.parse(path.read_text())


@pytest.mark.parametrize(
    ("group", "name", "message"),
    [
        ("placement", "OddCall", "is no rule name"),
        ("placement", "no_item", "without the `no_`"),
        ("nowhere", "odd_call", "there is no group `nowhere`"),
        ("placement", "cuda_method", "exists already"),
    ],
)
def test_a_new_rule_with_an_invalid_group_or_name_is_refused(
    checkout: Path, group: str, name: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        new_rule.scaffold(checkout, group, name)
    assert not (checkout / "fixtures").exists()


def test_rule_pages_are_written_and_stale_ones_removed(tmp_path: Path) -> None:
    # The checkout's own rules count as its own only below it, so this one has none.
    folder = tmp_path / "docs" / "rules"
    folder.mkdir(parents=True)
    (folder / "gone.md").touch()
    (tmp_path / "fixtures").mkdir()
    assert [folder / "gone.md", folder / "README.md"] == render_docs.stale(tmp_path)
    render_docs.write(tmp_path)
    assert [] == render_docs.stale(tmp_path)
    assert [folder / "README.md"] == list(folder.iterdir())
    shutil.rmtree(folder)
    assert [folder / "README.md"] == render_docs.stale(tmp_path)
