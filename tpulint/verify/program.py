"""Cases that are whole programs: run as processes of their own, compared by what they print."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tpulint.verify import judge
from tpulint.verify.claims import Outcome, Word
from tpulint.verify.recipe import Recipe

_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]*\w)")
_RAISED = re.compile(r"^(?P<type>(?:\w+\.)*\w+)(?:: (?P<message>.*))?$", re.DOTALL)
_READ_LIMIT = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended, what it printed, and how many operations torchax executed for it."""

    status: int | None
    printed: str
    errors: str
    operations: int = 0
    stood_in: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """How programs are started."""

    environment: Mapping[str, str]
    timeout: float
    arguments: tuple[str, ...] = ()

    def reference(self, folder: Path, main: str) -> Ended:
        """Run on plain CPU torch, where every accelerator is the CPU."""
        return self._run(["-m", "tpulint.verify.reference", main], folder)

    def on_torchax(self, folder: Path, main: str) -> Ended:
        """Run as `python main` would, counting what torchax executes."""
        with tempfile.TemporaryDirectory(prefix="tpulint-count-") as place:
            count = Path(place, "count")
            ended = self._run(["-m", "tpulint.verify.on_torchax", str(count), main], folder)
            # A program that dies leaves no count, and is judged by its death.
            operations, used = json.loads(count.read_text()) if count.exists() else (0, [])
        return Ended(ended.status, ended.printed, ended.errors, operations, tuple(used))

    def _run(self, start: list[str], folder: Path) -> Ended:
        with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                [sys.executable, *start, *self.arguments],
                cwd=folder,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=errors,
                start_new_session=True,
            )
            try:
                status: int | None = process.wait(self.timeout)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                # What the program started ends with it.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            return Ended(status, _text(printed), _text(errors))


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read(_READ_LIMIT).decode("utf-8", "replace")


def of_reference(ended: Ended, recipe: Recipe) -> Outcome:
    """What the original on plain torch came to."""
    if (died := _death(ended)) is not None:
        return died
    return Outcome(Word.EQUAL if _lines(ended, recipe.ignore_lines) else Word.NOTHING)


def outcome(ended: Ended, reference: Ended, recipe: Recipe, notes: set[str]) -> Outcome:
    """What a program came to beside the reference's print."""
    if (died := _death(ended)) is not None:
        return died
    if ended.stood_in:
        return judge.stood_in(ended.stood_in)
    ours, theirs = (_lines(side, recipe.ignore_lines) for side in (ended, reference))
    if not ours:
        return Outcome(Word.NOTHING)
    for row, (line, expected) in enumerate(zip(ours, theirs, strict=False), 1):
        if not _same(line, expected, recipe):
            return Outcome(Word.DIFFERS, f"line {row} is {line!r}, not {expected!r}")
    if len(ours) != len(theirs):
        return Outcome(Word.DIFFERS, f"{len(ours)} lines, not {len(theirs)}")
    if ended.operations == 0:
        return Outcome(Word.HOST, "nothing ran on torchax")
    if ours != theirs:
        notes.add("printed numbers differ within the tolerance")
    return Outcome(Word.EQUAL, f"{len(ours)} lines, {ended.operations} operations")


def _death(ended: Ended) -> Outcome | None:
    if ended.status is None:
        return Outcome(Word.HANGS, "no end within the time limit")
    if ended.status < 0:
        return Outcome(Word.CRASHES, f"the process died of {signal.Signals(-ended.status).name}")
    if ended.status == 0:
        return None
    # The last line that is not indented and not part of a traceback names what was raised.
    lines = [line for line in ended.errors.splitlines() if line and not line[0].isspace()]
    starts = [i for i, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    if starts and (raised := _RAISED.match("\n".join(lines[starts[-1] + 1 :]))):
        return Outcome(Word.RAISES, raised["message"] or "", raised["type"].rpartition(".")[2])
    return Outcome(Word.CRASHES, f"the program ended with status {ended.status}")


def _lines(ended: Ended, ignored: Iterable[str]) -> list[str]:
    patterns = [re.compile(pattern) for pattern in ignored]
    return [line for line in ended.printed.splitlines() if not any(p.search(line) for p in patterns)]


def _same(line: str, expected: str, recipe: Recipe) -> bool:
    """Same text around the numbers, same whole numbers, and other numbers within the tolerance."""
    if _NUMBER.split(line) != _NUMBER.split(expected):
        return False
    rtol, atol = recipe.tolerance.for_dtype("float32")
    for ours, theirs in zip(_NUMBER.findall(line), _NUMBER.findall(expected), strict=True):
        if ours == theirs:
            continue
        if ours.lstrip("+-").isdigit() and theirs.lstrip("+-").isdigit():
            return False
        if not abs(float(ours) - float(theirs)) <= atol + rtol * abs(float(theirs)):
            return False
    return True
