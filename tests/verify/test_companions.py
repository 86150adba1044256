"""What a fixed program finds beside it, as the program runs."""

from __future__ import annotations

import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

pytest.importorskip("torchax")

PROGRAM = """\
import torch
import torchax
import {first} as first
import {second} as second
from {second}.functions import tensor

torchax.enable_globally()
print(first is second, first.differentiable is second.differentiable, tensor.__module__)
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [("torchax_training", "pkg.torchax_training"), ("pkg.torchax_training", "torchax_training")],
)
def test_two_copies_in_one_program_are_one(first: str, second: str, tmp_path: Path) -> None:
    folder = resources.files("tpulint_rules").joinpath("companions/torchax_training")
    for place in (tmp_path, tmp_path / "pkg"):
        (place / "torchax_training").mkdir(parents=True)
        (place / "__init__.py").touch()
        for file in folder.iterdir():
            if file.name.endswith(".py"):
                place.joinpath("torchax_training", file.name).write_text(file.read_text(encoding="utf-8"))
    tmp_path.joinpath("main.py").write_text(PROGRAM.format(first=first, second=second))
    run = subprocess.run(
        [sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.stdout == f"True True {first}.functions\n", run.stderr
