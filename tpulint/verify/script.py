"""Programs as processes: in a fork of one that has imported torch and JAX, or in a fresh interpreter."""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Literal

from tpulint.verify.record import Record, read

Where = Literal["reference", "torchax"]
READ_LIMIT = 16 * 2**20
"""How many bytes of what a program prints are looked at."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended, what it printed, and what else it left behind.

    `status` is the exit code, the negative number of the signal that ended it, or None past the time limit.
    """

    status: int | None
    printed: str
    errors: str
    record: Record = field(default_factory=Record)


@dataclass(frozen=True, slots=True)
class Script:
    """A program to be run: `main` lies in `folder`, which is also the working directory."""

    where: Where
    """On plain CPU torch, where every accelerator is the CPU, or as it is, counting what torchax executes."""
    folder: Path
    main: str
    record: Path
    """The file that its record is left in."""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that are set before it starts; what torch and JAX read when imported is read by then."""


def execute(script: Script) -> int:
    """Run a program in this process, which must end with it; returns the exit code that Python would give."""
    os.environ.update(script.environment)
    os.chdir(script.folder)
    sys.path.insert(0, "")  # for the program's folder
    _seed_anew()
    try:
        _run(script)
        status = 0
    except SystemExit as error:
        status = _status(error.code)
    except BaseException:  # a program may raise anything
        sys.excepthook(*sys.exc_info())
        status = 1
    # What the interpreter does at its end: wait for threads, call what asked for it, write what is left.
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001
        atexit._run_exitfuncs()  # noqa: SLF001
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
    return status


def _run(script: Script) -> None:
    if script.where == "reference":
        from tpulint.verify import reference

        reference.run_script(script.record, script.main, list(script.arguments))
    else:
        from tpulint.verify import on_torchax

        on_torchax.run_script(script.record, script.main, list(script.arguments))


def _seed_anew() -> None:
    """Seed what a fresh interpreter seeds by the clock: forks would all draw the same numbers."""
    import numpy as np

    random.seed()
    np.random.seed()


def _status(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


@dataclass(frozen=True, slots=True)
class Launch:
    """Programs in interpreters of their own, as a user starts them."""

    environment: Mapping[str, str]
    timeout: float
    arguments: tuple[str, ...] = ()

    def reference(self, folder: Path, main: str) -> Ended:
        """Run on plain CPU torch, where every accelerator is the CPU."""
        return self._recorded(["-m", "tpulint.verify.reference", "--record"], folder, main)

    def on_torchax(self, folder: Path, main: str) -> Ended:
        """Run as `python main` would, counting what torchax executes."""
        return self._recorded(["-m", "tpulint.verify.on_torchax"], folder, main)

    def unwatched(self, folder: Path, main: str) -> Ended:
        """Run as `python main` would, at its own pace; nothing but what it does with modules is recorded."""
        return self._recorded(["-m", "tpulint.verify.on_torchax", "--unwatched"], folder, main)

    def _recorded(self, start: list[str], folder: Path, main: str) -> Ended:
        with tempfile.TemporaryDirectory(prefix="tpulint-record-") as place:
            target = Path(place, "record")
            ended = self._run([*start, str(target), main], folder)
            # A program that dies leaves no record, and is judged by its death.
            return replace(ended, record=read(target))

    def _run(self, start: list[str], folder: Path) -> Ended:
        with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                [sys.executable, *start, *self.arguments],
                cwd=folder,
                # Two processes with two threads each on two processors took 400 times as long for an LSTM.
                env={"OMP_NUM_THREADS": "1", **self.environment},
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
            return Ended(status, text_of(printed), text_of(errors))


def text_of(stream: IO[bytes]) -> str:
    """What a file holds that a program printed to, as far as it is looked at."""
    stream.seek(0)
    return stream.read(READ_LIMIT).decode("utf-8", "replace")
