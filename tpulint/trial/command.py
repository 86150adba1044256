"""The user's command, in a process group of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass

_LINES = 20


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended; `output` has its last lines."""

    status: int | None
    """None if the time limit stopped it."""
    seconds: float
    output: str

    @property
    def passed(self) -> bool:
        """Whether it exited with status 0."""
        return self.status == 0

    @property
    def words(self) -> str:
        """The outcome in words."""
        if self.passed:
            return "passed"
        return "did not end in time" if self.status is None else f"failed with status {self.status}"


def run(command: str, timeout: float) -> Ran:
    """Run a command in a shell, in the current folder; what it started ends with it."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        status: int | None = None
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(timeout)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        lines = output.read().decode(errors="replace").splitlines()[-_LINES:]
    return Ran(status, time.monotonic() - start, "\n".join(lines))
