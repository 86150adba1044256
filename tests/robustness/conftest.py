"""A command line in this process, one in a process of its own, and rules made up for a test."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tpulint.cli import run
from tpulint.rules_api import Rule


@dataclass(frozen=True)
class Outcome:
    """What a command line came to."""

    code: int
    out: str
    err: str
    raw: bytes = b""

    @property
    def findings(self) -> list[dict[str, Any]]:
        """The report in JSON."""
        found: list[dict[str, Any]] = json.loads(self.out)
        return found

    @property
    def places(self) -> list[tuple[str, str, int, int]]:
        """Where the findings of the report in JSON are."""
        return [
            (Path(f["filename"]).name, f["code"], f["location"]["row"], f["location"]["column"])
            for f in self.findings
        ]


Command = Callable[..., Outcome]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return tmp_path


@pytest.fixture
def tpulint(folder: Path, capfd: pytest.CaptureFixture[str]) -> Command:
    """`tpulint COMMAND --isolated --no-cache -q ...` in this process."""

    def command(name: str, *arguments: str) -> Outcome:
        capfd.readouterr()
        code = run([name, "--isolated", "--no-cache", "-q", *arguments])
        captured = capfd.readouterr()
        return Outcome(code, captured.out, captured.err)

    return command


@pytest.fixture
def tpulint_process(folder: Path) -> Command:
    """The same in a process of its own, for what could bring a process down."""

    def command(name: str, *arguments: str, stdin: bytes = b"") -> Outcome:
        done = subprocess.run(
            [sys.executable, "-m", "tpulint", name, "--isolated", "--no-cache", "-q", *arguments],
            cwd=folder,
            input=stdin,
            capture_output=True,
            check=False,
            timeout=240,
        )
        text = done.stdout.decode(errors="replace")
        return Outcome(done.returncode, text, done.stderr.decode(), done.stdout)

    return command


@pytest.fixture
def only_rules(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the tool believe that these rules, and no others, are installed."""

    def register(*rules: Rule) -> None:
        for name in ("registry", "engine.candidates", "engine.cache", "engine.run"):
            monkeypatch.setattr(importlib.import_module(f"tpulint.{name}"), "rules", lambda: rules)

    return register
