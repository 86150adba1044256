"""What only a process of its own can show."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "jax", "libcst", "rich", "multiprocessing", "pathspec", "tomllib", "importlib.metadata")


def python(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    # Where lines are counted, coverage would import packages of its own.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
        timeout=60,
    )


def test_the_command_line_imports_no_slow_packages() -> None:
    program = f"import sys, tpulint.cli; print(*[name for name in {HEAVY} if name in sys.modules])"
    assert "" == python("-c", program).stdout.strip()


def test_python_m_tpulint_is_the_command(tmp_path: Path) -> None:
    outcome = python("-m", "tpulint", "version", cwd=tmp_path)
    assert (0, "tpulint") == (outcome.returncode, outcome.stdout.split()[0])


@pytest.mark.parametrize("arguments", [("version",), ("check", "--show-files")])
def test_a_closed_pipe_is_quiet(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "a.py").touch()
    reader, writer = os.pipe()
    os.close(reader)
    outcome = subprocess.run(
        [sys.executable, "-m", "tpulint", *arguments],
        cwd=tmp_path,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(writer)
    assert (141, "") == (outcome.returncode, outcome.stderr)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    with open("/dev/full", "w") as full:
        outcome = subprocess.run(
            [sys.executable, "-m", "tpulint", "rules"],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert 2 == outcome.returncode
    assert 1 == len(outcome.stderr.splitlines())


def test_output_works_on_an_ascii_terminal(tmp_path: Path) -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "tpulint", "check", "图.txt"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (2, "error: \\u56fe.txt: no such file or folder\n") == (outcome.returncode, outcome.stderr)
