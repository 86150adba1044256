"""Programs that find the folder beside them that `fix` writes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tpulint.knowledge.training import TRAINING


@pytest.fixture
def lay() -> Callable[[Path], None]:
    """Puts the folder into a place, as `fix` does."""
    return _laid


@pytest.fixture
def printed(tmp_path: Path) -> Callable[[str], str]:
    """What a program prints that has the folder beside it."""

    def run(program: str) -> str:
        _laid(tmp_path)
        (tmp_path / "main.py").write_text(program)
        ended = subprocess.run(
            [sys.executable, "main.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    return run


def _laid(place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    (place / "__init__.py").touch()
    for name, text in TRAINING.files().items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
