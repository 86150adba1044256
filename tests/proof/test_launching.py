"""Programs with relative imports are run as modules of their packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.proof.conftest import Verify
from tpulint.proof import launching
from tpulint.proof.project import root_of
from tpulint.verify import missing_packages

PROGRAM = """\
import sys

from .sizes import SIZE

print(__name__, __package__, SIZE, sys.argv[1:])
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program of the package `apps.small`, which has a relative import."""
    folder = tmp_path / "apps" / "small"
    folder.mkdir(parents=True)
    for package in (folder.parent, folder):
        (package / "__init__.py").touch()
    (folder / "sizes.py").write_text("SIZE = 4\n")
    (folder / "train.py").write_text(PROGRAM)
    return folder / "train.py"


def printed(script: Path, folder: Path) -> str:
    return subprocess.run(
        [sys.executable, script, "--steps"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout


def test_a_program_with_relative_imports_runs_as_a_module(program: Path, tmp_path: Path) -> None:
    script = launching.script(program, tmp_path, tmp_path / "launcher.py")
    assert "__main__ apps.small 4 ['--steps']\n" == printed(script, tmp_path)


def test_a_program_without_relative_imports_runs_as_a_file(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text("import os\n")
    assert program == launching.script(program, tmp_path, tmp_path / "launcher.py")
    assert [program] == list(tmp_path.iterdir())


def test_a_file_that_is_not_python_runs_as_it_is(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text("from . import (\n")
    assert program == launching.script(program, tmp_path, tmp_path / "launcher.py")


def test_the_project_of_a_package_is_the_folder_that_it_lies_in(program: Path, tmp_path: Path) -> None:
    assert tmp_path == root_of(program)
    (tmp_path / "apps" / "setup.py").touch()
    assert tmp_path / "apps" == root_of(program)


@pytest.mark.skipif(bool(missing_packages()), reason="tpulint[verify] is not installed")
def test_a_program_of_a_package_is_verified(verify: Verify, program: Path) -> None:
    text = (
        "import torch\nfrom .sizes import SIZE\n\nif __name__ == '__main__':\n"
        "    print(torch.ones(SIZE).cuda().sum().item())\n"
    )
    program.write_text(text)
    code, report, _ = verify("--no-trace", "apps/small/train.py")
    (found,) = report["verifications"]
    assert (0, "same") == (code, found["state"])
    assert text == program.read_text()


@pytest.mark.skipif(bool(missing_packages()), reason="tpulint[verify] is not installed")
def test_a_program_that_is_fixed_already_is_not_run(verify: Verify, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torchax_compat\n\ntorchax_compat.enable()\n")
    code, report, _ = verify("--no-trace", "train.py")
    (found,) = report["verifications"]
    reason = "the original uses torchax-compat already: verify the program as it was before `fix`"
    assert (2, "not run", reason) == (code, found["state"], found["reason"])
