"""Whether a project has the runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpulint.engine.supply import declarations_for
from tpulint.runtime.presence import is_in_project


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("requirements.txt", "torchax-compat\n", True),
        ("scripts/requirements.txt", "torchax-compat\n", True),
        ("torchax_compat/__init__.py", "", True),
        ("scripts/torchax_compat/__init__.py", "", True),
        ("other/torchax_compat/__init__.py", "", False),
        ("requirements.txt", "torch\n", False),
    ],
)
def test_declared_and_vendored_runtimes_count(tmp_path: Path, name: str, text: str, expected: bool) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    assert expected == is_in_project([str(tmp_path / "scripts" / "main.py")], tmp_path)


def test_what_fix_declares_above_the_project_is_found(tmp_path: Path) -> None:
    project = tmp_path / "sub"
    (tmp_path / ".git").mkdir()
    (project / "scripts").mkdir(parents=True)
    (tmp_path / "requirements.txt").write_text("torch\n")
    main = project / "scripts" / "main.py"
    (change,) = declarations_for([main], project)
    assert not is_in_project([str(main)], project)
    (tmp_path / "requirements.txt").write_text(change.after)
    assert is_in_project([str(main)], project)
