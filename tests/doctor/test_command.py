"""`tpulint doctor` on the environment of the tests, and on interpreters that do not answer."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tpulint.cli import run
from tpulint.knowledge.versions import TESTED


def test_the_environment_of_the_tests_runs_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torchax_compat")
    monkeypatch.chdir(tmp_path)
    run(["doctor", "--output-format", "json"])
    checks = {one["name"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert ("ok", True) == (checks["jax"]["state"], TESTED["jax"] in checks["jax"]["message"])
    assert "ok" == checks["torchax environment"]["state"]
    assert "ok" == checks["training step"]["state"], checks["training step"]
    assert ", as in plain torch; " in checks["training step"]["message"]


def test_a_module_that_hides_jax_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jax.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert 1 == run(["doctor", "--no-step", "--color", "never"])
    out = capsys.readouterr().out
    assert f"`import jax` imports {tmp_path / 'jax.py'}, which hides the installed package" in out
    assert f"-> rename {tmp_path / 'jax.py'}\n" in out


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("exit 3", "the process ended with status 3"),
        ("echo Segmentation >&2; kill -SEGV $$", "the process was killed by signal 11: Segmentation"),
        ("echo no JSON", "the process ended with status 0"),
        ("echo 5", "the process ended with status 0"),
        ("sleep 60", "no answer within 1 s"),
    ],
)
def test_an_interpreter_that_does_not_answer_is_one_line_and_exit_2(
    script: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "python").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "python").chmod(0o755)
    assert 2 == run(["doctor", "--timeout", "1", "--python", str(tmp_path / "python")])
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"Error: {tmp_path / 'python'}: {message}" == error


def test_an_interpreter_that_is_not_there_is_one_line_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == run(["doctor", "--python", "/nowhere/python"])
    assert capsys.readouterr().err.endswith("Error: /nowhere/python: No such file or directory\n")


def test_probes_of_packages_that_are_not_installed_are_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Without the folder of the installed packages, as in a new environment.
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    (tmp_path / "python").chmod(0o755)
    assert 1 == run(["doctor", "--python", str(tmp_path / "python"), "--output-format", "json"])
    checks = {one["name"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert "not installed: torch, torchax, jax, torchax-compat" == checks["packages"]["message"]
    assert "not checked" == checks["devices"]["state"] == checks["training step"]["state"]
