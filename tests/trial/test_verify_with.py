"""`tpulint fix --verify-with` keeps the fixes with which a command passes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tpulint.cli import run

A = """\
import torch

x = torch.zeros(3).cuda()
y = torch.ones(3).cuda()
print("sum", float((x + y).sum()))
"""
B = """\
import torch


def f():
    torch.cuda.synchronize()
    return torch.ones(2, device="cuda")
"""
OPTIONS = ("fix", "--isolated", "--unsafe-fixes", "-j1")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.py").write_text(A)
    (tmp_path / "b.py").write_text(B)
    (tmp_path / "requirements.txt").write_text("torch==2.13.0+cu121\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(project: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in project.iterdir() if path.is_file()}


def fixed_with(project: Path, command: str) -> tuple[int, dict[str, str]]:
    return run([*OPTIONS, "-q", "--verify-with", command]), contents(project)


def test_all_fixes_stay_if_the_command_passes(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, files = fixed_with(project, "grep -q enable a.py")
    assert (0, True) == (code, "cuda" not in files["a.py"] + files["b.py"])
    assert "torch==2.13.0+cpu\ntorchax-compat>=0.1\n" == files["requirements.txt"]
    assert "note: with 6 of 6 fixes, the command passed" in capsys.readouterr().err
    assert not (project / ".tpulint_cache" / "trial").exists()


@pytest.mark.parametrize(
    ("condition", "kept", "gone", "location"),
    [
        ("'ones(3).cuda' a.py", "y = torch.ones(3).cuda()", "zeros(3).cuda", "a.py:4: the fix of TPU101"),
        ("'device=.cuda' b.py", 'device="cuda"', "torch.cuda.synchronize", "b.py:6: the fix of TPU102"),
        ("cu121 requirements.txt", "+cu121", "+cpu", "requirements.txt:1: the fix of ENV101"),
    ],
)
def test_the_fix_with_which_the_command_fails_is_left_out(
    project: Path, condition: str, kept: str, gone: str, location: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, files = fixed_with(project, f"grep -q {condition}")
    text = "".join(files.values())
    assert (1, True, False) == (code, kept in text, gone in text)
    notes = capsys.readouterr().err
    assert f"note: left out, since the command fails with them:\nnote:   {location}\n" in notes
    assert ".cuda.synchronize" not in text


def test_several_fixes_of_several_files_are_left_out(project: Path) -> None:
    _, files = fixed_with(project, "grep -q 'ones(3).cuda' a.py && grep -q 'device=.cuda' b.py")
    assert ["y = torch.ones(3).cuda()"] == [one for one in files["a.py"].splitlines() if ".cuda" in one]
    assert ['    return torch.ones(2, device="cuda")'] == [
        one for one in files["b.py"].splitlines() if "cuda" in one
    ]


def test_a_command_that_fails_without_fixes_changes_nothing(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(project)
    assert (2, before) == fixed_with(project, "echo no module; exit 3")
    error = capsys.readouterr().err
    assert "the command failed with status 3 without any fix, so" in error
    assert error.endswith("no file was changed\nno module\n")


def test_a_command_that_does_not_end_is_stopped(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = "grep -q '.cuda()' a.py || sleep 60"
    code = run([*OPTIONS, "-q", "--verify-timeout", "1", "--verify-with", command])
    assert (1, True) == (code, ".cuda()" in (project / "a.py").read_text())
    assert "the command did not end in time" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "now"), [("echo '# mine' >> a.py; grep -q cuda a.py", "# mine"), ("rm a.py", None)]
)
def test_a_command_that_changes_a_file_itself_keeps_no_fix_and_loses_nothing(
    project: Path, capsys: pytest.CaptureFixture[str], command: str, now: str | None
) -> None:
    before = contents(project)
    code, files = fixed_with(project, command)
    assert 2 == code
    errors = capsys.readouterr().err
    assert "the command modifies files that `fix` changes" in errors
    changed = files.pop("a.py", None)
    assert now is None if changed is None else now == changed.splitlines()[-1]
    assert {name: text for name, text in before.items() if name != "a.py"} == files
    (copy,) = (project / ".tpulint_cache").glob("trial-*/0.original")
    assert A == copy.read_text()
    assert f"the command modified a.py; {copy.relative_to(project)} is a copy of the original" in errors


def test_a_command_without_words_is_an_error(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(project)
    assert (2, before) == fixed_with(project, " ")
    assert "--verify-with needs a command" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--diff"], ["--vendor"]])
def test_options_that_do_not_go_with_it_are_an_error(
    project: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(project)
    assert 2 == run([*OPTIONS, "--verify-with", "true", *options])
    assert "--verify-with" in capsys.readouterr().err
    assert before == contents(project)


def interrupted(project: Path, number: int) -> subprocess.CompletedProcess[bytes]:
    """A run that gets a signal while the command runs on fixed files; its files are then looked at."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tpulint", *OPTIONS, "--verify-with", "touch started; sleep 60"],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Jobs in the background ignore interruptions, and so do the processes that they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    while not (project / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "enable()" in (project / "a.py").read_text()
    os.kill(process.pid, number)
    out, error = process.communicate(timeout=60)
    (project / "started").unlink()
    return subprocess.CompletedProcess([], process.returncode, out, error)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_restores_the_files(project: Path, number: int) -> None:
    before = contents(project)
    assert 130 == interrupted(project, number).returncode
    assert before == contents(project)
    assert not (project / ".tpulint_cache" / "trial").exists()


def test_the_next_run_restores_the_files_of_a_killed_one(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(project)
    assert -signal.SIGKILL == interrupted(project, signal.SIGKILL).returncode
    assert before != contents(project)
    assert 1 == run([*OPTIONS, "--diff", "-q"])
    assert before == contents(project)
    error = capsys.readouterr().err
    assert "restored the files of an interrupted `fix --verify-with`: a.py, b.py, requirements.txt" in error
