"""`torch.cuda.Stream` for torchax: no effect, since JAX runs operations in the order of the program."""

from __future__ import annotations

import contextlib

import torch

from ..environment import is_enabled
from ..patches.declarations import TORCH, patch
from .events import Event


class Stream(Event):
    """`torch.cuda.Stream`; on torchax, the arguments of the constructor are ignored.

    Where the runtime is not enabled, as in a program that runs on CUDA, the constructor returns a
    `torch.cuda.Stream`.
    """

    def __new__(cls, *args, **kwargs):
        return object.__new__(cls) if is_enabled() else torch.cuda.Stream(*args, **kwargs)

    def record_event(self, event=None):
        """Record an event, by default a new one, and return it."""
        event = Event() if event is None else event
        event.record()
        return event

    def wait_event(self, event):
        """Does nothing: there is only one stream."""

    def wait_stream(self, stream):
        """Does nothing: there is only one stream."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Does nothing: there is only one stream."""


def current_stream(device=None):
    """`torch.cuda.current_stream`."""
    return Stream() if is_enabled() else torch.cuda.current_stream(device)


def stream(stream):
    """`torch.cuda.stream`, for `with torch.cuda.stream(...)`."""
    return contextlib.nullcontext(stream) if is_enabled() else torch.cuda.stream(stream)


_stream = torch.cuda.stream


@patch(
    "torch.cuda:stream",
    why="`torch.cuda.stream` in other files gets the streams of torchax, which it does not know.",
    upstream=TORCH + "cuda/__init__.py",
)
def _entered(one):
    return contextlib.nullcontext(one) if isinstance(one, Stream) else _stream(one)


@patch(
    "torch:Tensor.record_stream",
    why="It rejects streams that are not of CUDA; JAX frees memory only after its last use.",
)
def _recorded(tensor, stream):
    """`Tensor.record_stream`, which has nothing to do."""
