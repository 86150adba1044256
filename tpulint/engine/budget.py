"""A limit for the processor time that the analysis of one file may take."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class OverBudget(BaseException):
    """The analysis of a file took longer than it may."""


@contextlib.contextmanager
def budget(seconds: float) -> Iterator[None]:
    """Interrupt the code below once it has taken so much processor time; 0 means no limit.

    There is no limit on Windows, and in threads besides the main one, where Python offers no such timer.

    Raises:
        OverBudget: in the code below.
    """
    if not seconds or not hasattr(signal, "setitimer") or not _in_main_thread():
        yield
        return
    former = signal.signal(signal.SIGVTALRM, _interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise OverBudget
