"""Cases that are whole programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpulint.fixture import cases
from tpulint.verify import Result, State, exit_status, missing_packages, verify
from tpulint.verify.claims import Word
from tpulint.verify.program import Ended, outcome
from tpulint.verify.recipe import Recipe

pytestmark = pytest.mark.skipif(bool(missing_packages()), reason="tpulint[verify] is not installed")

BEFORE = """\
import time
from pathlib import Path

import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.arange(6.0).to(device)
print("read", Path("data.txt").read_text())
print(f"mean {(x / 7).mean().item():.7f} of {x.numel()}")
print(f"took {time.time()} s")
"""
AFTER = BEFORE.replace(
    "import torch\n", "import torch\nimport torchax\n\ntorchax.enable_globally()\n"
).replace('torch.device("cuda" if torch.cuda.is_available() else "cpu")', 'torch.device("jax")')
RUN = 'program = True\nignore_lines = ["^took "]\nclaim = {"eager": "host"}\n'


def run(root: Path, after: str, recipe: str = RUN) -> list[Result]:
    folder = root / "programs" / "case"
    folder.mkdir(parents=True)
    (folder / "data.txt").write_text("data")
    for name, text in (("before.py", BEFORE), ("after.py", after), ("run.py", recipe)):
        (folder / name).write_text(text)
    return list(verify(cases(root), lambda case: case.after or case.before))


def test_a_right_program_is_verified(tmp_path: Path) -> None:
    rows = run(tmp_path, AFTER)
    assert [(row.stage, row.side, row.state) for row in rows] == [
        ("reference", "original", State.VERIFIED),
        ("eager", "original", State.VERIFIED),
        ("eager", "fixed", State.VERIFIED),
    ], rows
    assert rows[1].happened == "host: nothing ran on torchax"
    assert exit_status(rows) == 0


@pytest.mark.parametrize(
    ("after", "happened"),
    [
        (BEFORE.replace("x / 7", "x / 7 * 1"), "host: nothing ran on torchax"),
        (AFTER.replace("x / 7", "x / 8"), "differs: line 2 is"),
        (AFTER + "raise KeyError('late')\n", "raises KeyError: 'late'"),
        (
            AFTER + "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)\n",
            "crashes: the process died of SIGSEGV",
        ),
    ],
)
def test_a_wrong_program_fails(tmp_path: Path, after: str, happened: str) -> None:
    rows = run(tmp_path, after, 'program = True\nignore_lines = ["^took "]\n')
    assert [row.state for row in rows] == [State.VERIFIED, State.FAILED]
    assert rows[1].happened.startswith(happened)


@pytest.mark.parametrize(
    ("printed", "word"),
    [
        ("mean 1.000004 of 3\nx", Word.EQUAL),
        ("mean 1.0001 of 3\nx", Word.DIFFERS),
        ("mean 1.000001 of 4\nx", Word.DIFFERS),
        ("mean 1 of 3\nx", Word.EQUAL),
        ("mean nan of 3\nx", Word.DIFFERS),
        ("mean 1.000001 of 3\ny", Word.DIFFERS),
        ("mean 1.000001 of 3", Word.DIFFERS),
        ("took 3 s\nmean 1.000001 of 3\nx", Word.EQUAL),
        ("took 3 s", Word.NOTHING),
    ],
)
def test_printed_numbers_are_compared_as_numbers(printed: str, word: Word) -> None:
    recipe = Recipe(program=True, ignore_lines=("^took",))
    reference = Ended(0, "mean 1.000001 of 3\nx\ntook 1 s", "")
    assert outcome(Ended(0, printed, "", operations=1), reference, recipe, set()).word is word
