from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tpulint.cli import run

Verify = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Verify:
    """Runs `tpulint verify` in an empty folder; gives the exit code, the JSON report and standard error."""
    monkeypatch.chdir(tmp_path)

    def verified(*arguments: str) -> tuple[int, dict[str, Any], str]:
        capsys.readouterr()
        code = run(["verify", "--platform", "cpu", "--output-format", "json", *arguments])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else {}, err

    return verified
