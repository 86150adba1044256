"""Processes for user code, with limits of time and memory."""

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
"""The processes that `run` waits for, in all threads."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a process and its children: seconds, and bytes of resident memory."""

    seconds: float
    memory: int


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """The result of a process.

    Args:
        status: the exit status, or the negative number of the signal that killed it.
        stdout: its standard output.
        stderr: its standard error.
        exceeded_limit: a message about the limit that it exceeded; "" if none.
    """

    status: int
    stdout: str
    stderr: str
    exceeded_limit: str = ""

    @property
    def error(self) -> str:
        """Why the process failed, in words; "" if it exited with status 0."""
        if self.exceeded_limit:
            return self.exceeded_limit
        if self.status < 0:
            return f"the process was killed by {signal.Signals(-self.status).name}"
        return f"the process exited with status {self.status}" if self.status else ""


def run(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], limits: Limits
) -> ProcessResult:
    """Run `python ARGUMENTS` in a folder, wait for its end, and kill the processes that it leaves behind."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", *arguments],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        _running.add(process.pid)
        try:
            exceeded_limit = _wait(process, limits)
        finally:
            _kill(process.pid)
            process.wait()
            _running.discard(process.pid)
        return ProcessResult(process.returncode, text_of(stdout), text_of(stderr), exceeded_limit)


@contextlib.contextmanager
def threads(number: int) -> Iterator[ThreadPoolExecutor]:
    """A thread pool whose threads call `run`; on an exception, all processes are killed."""
    with ThreadPoolExecutor(number) as pool:
        try:
            yield pool
        except BaseException:
            for process in tuple(_running):
                _kill(process)
            raise


def _kill(process: int) -> None:
    """Kill a process and its children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


def _wait(process: subprocess.Popen[bytes], limits: Limits) -> str:
    """Wait for the end of a process; a message about the limit that it exceeded, or ""."""
    deadline = time.monotonic() + limits.seconds
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PERIOD)
            return ""
        if time.monotonic() > deadline:
            return f"no end within {limits.seconds:g} s (--timeout)"
        if _resident(process.pid) > limits.memory:
            return f"the process used more than {limits.memory / 2**30:.1f} GiB of memory (--memory)"


def _resident(session: int) -> int:
    """The resident bytes of all processes of a session; 0 where there is no /proc, as on macOS."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if os.getsid(int(folder.name)) == session:
                total += int((folder / "statm").read_text().split()[1]) * _PAGE
    return total
