"""Exit codes, and what the commands print."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TextIO

from tpulint.finding import FileError

CLEAN, FINDINGS, ERROR, INTERRUPTED, CLOSED_PIPE = 0, 1, 2, 130, 141


def finish(errors: Sequence[FileError], code: int) -> int:
    """Say what went wrong with which file; any such error outweighs findings."""
    from tpulint.report.paths import shown

    for error in errors:
        complain(f"{shown(error.path)}: {' '.join(error.message.split())}")
    return ERROR if errors else code


def write(text: str, stream: TextIO | None = None) -> None:
    """Print to standard output, or to a stream; leave if nobody reads it."""
    try:
        print(text, end="", file=stream)
    except BrokenPipeError:
        # click would turn it into exit code 1, which means findings.
        sys.exit(closed_pipe())


def write_now(text: str) -> None:
    """Write what a reader waits for, in a pipe, too."""
    write(text)
    sys.stdout.flush()


def complain(text: str, kind: str = "error") -> None:
    """Print an error, or a note, to standard error."""
    print(f"{kind}: {text}", file=sys.stderr)


def closed_pipe() -> int:
    """The reader has gone: leave without a word, and let the interpreter's last flush go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return CLOSED_PIPE
