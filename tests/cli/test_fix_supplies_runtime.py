"""What `fix` does so that a fixed program finds the runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpulint.cli import run

PROGRAM = 'import torch\n\nprint(torch.ones(2, device="cuda"))\n'
MAIN = 'import torch\n\nif __name__ == "__main__":\n    print(torch.ones(2, device="cuda"))\n'
OPTIONS = ["--no-cache", "--unsafe-fixes", "-j", "1"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/main.py").write_text(PROGRAM)
    return tmp_path


def test_dependency_is_declared_above_the_program_and_reported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "requirements.txt").write_text("torch\n")
    assert run(["fix", *OPTIONS, "scripts/main.py"]) == 0
    assert (folder / "requirements.txt").read_text() == "torch\ntorchax-compat>=0.1\n"
    out = capsys.readouterr().out
    assert "Added torchax-compat>=0.1 to requirements.txt\n" in out
    assert "'jax[tpu]==0.10.2' torchax-compat\n  - run `python scripts/main.py`, which uses one chip\n" in out


def test_diff_shows_the_dependency_and_changes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "requirements.txt").write_text("torch\n")
    assert run(["fix", "--diff", *OPTIONS, "scripts"]) == 1
    out = capsys.readouterr().out
    assert "+torchax-compat>=0.1\n" in out
    assert "+torchax_compat.enable()\n" in out
    assert (folder / "requirements.txt").read_text() == "torch\n"
    assert (folder / "scripts/main.py").read_text() == PROGRAM


def test_dependency_that_is_declared_is_not_added_again(folder: Path) -> None:
    (folder / "requirements.txt").write_text("torchax_compat==0.1\ntorch\n")
    assert run(["fix", *OPTIONS, "scripts"]) == 0
    assert (folder / "requirements.txt").read_text() == "torchax_compat==0.1\ntorch\n"


def test_files_above_the_repository_are_left_alone(folder: Path) -> None:
    inner = folder / "inner"
    (inner / ".git").mkdir(parents=True)
    (inner / "main.py").write_text(PROGRAM)
    (folder / "requirements.txt").write_text("torch\n")
    assert run(["fix", *OPTIONS, "inner"]) == 0
    assert (folder / "requirements.txt").read_text() == "torch\n"


@pytest.mark.parametrize(
    "files", [["scripts/main.py"], ["pkg/__init__.py", "pkg/inner/__init__.py", "pkg/inner/main.py"]]
)
def test_vendored_copy_lies_where_the_program_finds_it(folder: Path, files: list[str]) -> None:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(MAIN if name.endswith("main.py") else "")
    (folder / "requirements.txt").write_text("torch\n")
    assert run(["fix", "--vendor", *OPTIONS, files[-1]]) == 0
    place = folder / ("scripts" if len(files) == 1 else ".")
    assert (place / "torchax_compat/vendored.json").is_file()
    assert (folder / "requirements.txt").read_text() == "torch\n"
    assert run(["check", "--no-cache", files[-1]]) == 0


def test_file_from_standard_input_adds_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    import io
    import sys

    (folder / "requirements.txt").write_text("torch\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PROGRAM.encode())))
    assert run(["fix", *OPTIONS, "-"]) == 0
    assert b"torchax_compat.enable()" in capsysbinary.readouterr().out
    assert (folder / "requirements.txt").read_text() == "torch\n"
