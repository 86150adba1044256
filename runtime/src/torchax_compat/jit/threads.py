"""Threads that a program starts in the torchax environment run in it, too.

torchax consists of torch modes, which apply to a single thread: in another thread, device tensors raise.
On GPUs they do not, and servers, prefetchers and text streamers compute in threads.
Modules and decorated functions are then called by one thread at a time, since threads share what is compiled.
"""

from __future__ import annotations

import functools
import threading

import torch
import torchax
from torchax.tensor import XLADispatchMode, XLAFunctionMode

from ..adapters.torch_internals import function_modes
from ..autograd.differentiable import differentiable
from ..patches.declarations import patch, setup

_start = threading.Thread.start
_lock = threading.RLock()
#: Classes whose instances are called by one thread at a time, once a program starts threads.
_CALLED = (torch.nn.Module, differentiable)


@patch(
    "threading:Thread.start",
    why="The modes of torchax apply to one thread, so tensors on the device raise in others.",
)
def _started(thread):
    if any(isinstance(mode, XLAFunctionMode) for mode in function_modes()):
        environment, run = torchax.default_env(), thread.run

        def on_torchax():
            with XLADispatchMode(environment), XLAFunctionMode(environment):
                run()

        thread.run = on_torchax
        _take_turns()
    _start(thread)


@setup(
    "calls of modules by one thread at a time",
    why="Threads share what is compiled; nothing changes before the program starts a thread.",
)
def _allow_turns():
    return _stop_turns


@functools.cache
def _take_turns():
    """Let one thread at a time call modules and decorated functions; `_stop_turns` takes it back."""
    for kind in _CALLED:
        kind.__call__ = _in_turn(kind.__call__)


def _stop_turns():
    for kind in _CALLED:
        kind.__call__ = getattr(kind.__call__, "plain", kind.__call__)
    _take_turns.cache_clear()


def _in_turn(plain):
    def called(*args, **kwargs):
        with _lock:
            return plain(*args, **kwargs)

    called.plain = plain
    return called
