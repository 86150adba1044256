"""Threads that a program starts in the torchax environment run in it, too.

torchax consists of torch modes, which apply to a single thread: in another thread, device tensors raise.
On GPUs they do not, and servers, prefetchers and text streamers compute in threads.
Importing this module patches `threading.Thread.start`.
Modules and decorated functions are then called by one thread at a time, since threads share what is compiled.
"""

from __future__ import annotations

import functools
import threading

import torch
import torchax
from torch.overrides import _get_current_function_mode_stack
from torchax.tensor import XLADispatchMode, XLAFunctionMode

from ..autograd.differentiable import differentiable

_start = threading.Thread.start
_lock = threading.RLock()


def _started(thread):
    if any(isinstance(mode, XLAFunctionMode) for mode in _get_current_function_mode_stack()):
        environment, run = torchax.default_env(), thread.run

        def on_torchax():
            with XLADispatchMode(environment), XLAFunctionMode(environment):
                run()

        thread.run = on_torchax
        _take_turns()
    _start(thread)


@functools.cache
def _take_turns():
    for kind in (torch.nn.Module, differentiable):
        kind.__call__ = _in_turn(kind.__call__)


def _in_turn(plain):
    def called(*args, **kwargs):
        with _lock:
            return plain(*args, **kwargs)

    return called


threading.Thread.start = _started
