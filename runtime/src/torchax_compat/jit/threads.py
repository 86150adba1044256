"""Threads that a program starts in the torchax environment run in it, too.

torchax consists of torch modes, which apply to a single thread: in another thread, device tensors raise.
On GPUs they do not, and servers, prefetchers and text streamers compute in threads.
Modules and decorated functions are then called by one thread at a time, since threads share what is compiled.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import torch
import torchax
from torchax.tensor import XLADispatchMode, XLAFunctionMode

from ..adapters.torch_internals import function_modes
from ..autograd.differentiable import DifferentiableFunction
from ..patches.declarations import patch, setup

_start = threading.Thread.start
_lock = threading.RLock()
#: Classes whose instances are called by one thread at a time, once a program starts threads.
_CALLED: tuple[Any, ...] = (torch.nn.Module, DifferentiableFunction)


@patch(
    "threading:Thread.start",
    why="The modes of torchax apply to one thread, so tensors on the device raise in others.",
)
def _started(thread: Any) -> None:
    if any(isinstance(mode, XLAFunctionMode) for mode in function_modes()):
        environment, run = torchax.default_env(), thread.run

        def on_torchax() -> None:
            with XLADispatchMode(environment), XLAFunctionMode(environment):
                run()

        thread.run = on_torchax
        _take_turns()
    _start(thread)


@setup(
    "calls of modules by one thread at a time",
    why="Threads share what is compiled; nothing changes before the program starts a thread.",
)
def _allow_turns() -> Any:
    return _stop_turns


@functools.cache
def _take_turns() -> None:
    """Let one thread at a time call modules and decorated functions; `_stop_turns` takes it back."""
    for kind in _CALLED:
        kind.__call__ = _in_turn(kind.__call__)


def _stop_turns() -> None:
    for kind in _CALLED:
        kind.__call__ = getattr(kind.__call__, "plain", kind.__call__)
    _take_turns.cache_clear()


def _in_turn(plain: Any) -> Any:
    def called(*args: Any, **kwargs: Any) -> Any:
        with _lock:
            return plain(*args, **kwargs)

    made: Any = called
    made.plain = plain
    return made
