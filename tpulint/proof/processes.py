"""User code in processes of its own, with limits of time and memory."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tpulint.verify.script import text_of

_PERIOD = 0.1
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


_running: set[int] = set()
"""The processes that `run` waits for, in any thread."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a process may use: seconds, and bytes of resident memory with the processes that it starts."""

    seconds: float
    memory: int


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended; `stopped` says which limit ended it."""

    status: int
    printed: str
    errors: str
    stopped: str = ""

    @property
    def death(self) -> str:
        """Why it ended before its work was done, in words; empty if it exited by itself with status 0."""
        if self.stopped:
            return self.stopped
        if self.status < 0:
            return f"the process died of {signal.Signals(-self.status).name}"
        return f"the process exited with status {self.status}" if self.status else ""


def run(arguments: Sequence[str], folder: Path, environment: Mapping[str, str], limits: Limits) -> Ended:
    """Run `python ARGUMENTS` in a folder and wait for its end; what it started ends with it."""
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", *arguments],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=errors,
            start_new_session=True,
        )
        _running.add(process.pid)
        try:
            stopped = _watched(process, limits)
        finally:
            _kill(process.pid)
            process.wait()
            _running.discard(process.pid)
        return Ended(process.returncode, text_of(printed), text_of(errors), stopped)


@contextlib.contextmanager
def threads(number: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that run processes; an interruption ends the processes, instead of waiting for them."""
    with ThreadPoolExecutor(number) as pool:
        try:
            yield pool
        except BaseException:
            for process in tuple(_running):
                _kill(process)
            raise


def _kill(process: int) -> None:
    """Kill a process with all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


def _watched(process: subprocess.Popen[bytes], limits: Limits) -> str:
    """Wait for the end of a process; which limit it passed, if any."""
    deadline = time.monotonic() + limits.seconds
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PERIOD)
            return ""
        if time.monotonic() > deadline:
            return f"no end within {limits.seconds:g} s (--timeout)"
        if _resident(process.pid) > limits.memory:
            return f"it took more than {limits.memory / 2**30:.1f} GiB of memory (--memory)"


def _resident(session: int) -> int:
    """The resident bytes of all processes of a session; 0 where there is no /proc, as on macOS."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if os.getsid(int(folder.name)) == session:
                total += int((folder / "statm").read_text().split()[1]) * _PAGE
    return total
