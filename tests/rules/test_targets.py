"""With another target than torchax, no fix writes code for torchax."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from tpulint.fixture import Case, cases, strip_wants
from tpulint.knowledge.targets import TARGETS, TORCHAX
from tpulint.registry import rules
from tpulint.settings import TARGETS as NAMES
from tpulint.testing import findings, fixed

ROOT = Path(__file__).parents[2]
FOLDERS = {rule.folder: rule for rule in rules()}
EXAMPLES = [
    case
    for case in cases(ROOT / "fixtures")
    if case.name == "example" and case.rule in FOLDERS and len(FOLDERS[case.rule].targets) > 1
]
_TORCHAX = re.compile(r"""["']jax["']|\bimport (jax|torchax)|\btorchax_compat\b""")
others = pytest.mark.parametrize("target", [name for name in NAMES if name != TORCHAX.name])


def test_targets_of_the_settings_are_those_that_are_described() -> None:
    assert list(NAMES) == list(TARGETS)


@others
@pytest.mark.parametrize("case", EXAMPLES, ids=lambda case: case.rule)
def test_fixes_for_another_target_write_nothing_of_torchax(case: Case, target: str) -> None:
    settings = dataclasses.replace(case.settings, target=target)
    for name, text in fixed(case, settings=settings).items():
        written = set(text.splitlines()) - set(strip_wants(case.before[name], name).splitlines())
        assert [] == [line for line in sorted(written) if _TORCHAX.search(line)]


@pytest.mark.parametrize("target", NAMES)
def test_rules_about_torchax_find_nothing_for_another_target(target: str, tmp_path: Path) -> None:
    folder = tmp_path / "rule" / "case"
    folder.mkdir(parents=True)
    (folder / "before.py").write_text(
        "import torch\n\n\n@torch.compile\ndef f(x):\n    return x.cuda() if x.sum() > 0 else x\n"
    )
    (folder / "pyproject.toml").write_text(f'[tool.tpulint]\ntarget = "{target}"\n')
    (case,) = cases(tmp_path)
    found = {finding.code for finding in findings(case, select=["TPU1", "TPU3"])}
    expected = {"TPU101", "TPU303"} if target == TORCHAX.name else {"TPU101"}
    assert expected == found
