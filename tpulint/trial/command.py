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
"""How many lines of the output are kept."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command.

    Args:
        status: the exit status; None if the command reached the time limit.
        seconds: the elapsed time.
        output: the last lines of standard output and standard error.
    """

    status: int | None
    seconds: float
    output: str

    @property
    def passed(self) -> bool:
        """Whether the exit status is 0."""
        return self.status == 0

    @property
    def description(self) -> str:
        """The result in words, such as `failed with status 1`."""
        if self.passed:
            return "passed"
        return "did not end in time" if self.status is None else f"failed with status {self.status}"


def run(command: str, timeout: float) -> CommandResult:
    """Run a command in a shell, in the current folder, and kill the processes that it leaves behind."""
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
    return CommandResult(status, time.monotonic() - start, "\n".join(lines))
