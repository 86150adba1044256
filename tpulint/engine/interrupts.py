"""Signals that end a process, as interruptions."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def signals_as_interrupts() -> Iterator[None]:
    """Let the signals that end a process raise `KeyboardInterrupt`, so that what was begun is undone."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    wanted = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    former = {one: signal.signal(one, interrupt) for one in wanted}
    try:
        yield
    finally:
        for one, handler in former.items():
            signal.signal(one, handler)
