"""`torch.cuda.Stream` for torchax: no effect, since JAX runs operations in the order of the program.

Importing this module patches `torch.cuda.stream` and `torch.Tensor.record_stream`, so that they accept these
streams in other files, too.
This package is part of your repository: change it as you need.
"""

from __future__ import annotations

import contextlib

import torch

from .events import Event


class Stream(Event):
    """`torch.cuda.Stream`; the arguments of the constructor are ignored."""

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
    return Stream()


def stream(stream):
    """`torch.cuda.stream`, for `with torch.cuda.stream(...)`."""
    return contextlib.nullcontext(stream)


_stream = torch.cuda.stream


def _entered(one):
    return stream(one) if isinstance(one, Stream) else _stream(one)


def _recorded(tensor, stream):
    """`Tensor.record_stream`: does nothing, since JAX frees memory only after its last use."""


torch.cuda.stream, torch.Tensor.record_stream = _entered, _recorded
