"""Streams of CUDA where there are none: JAX computes in the order in which it was told.

Importing this file lets `torch.cuda.stream` and `record_stream` take them, too, wherever they are handed to.
This folder belongs to the program: change it as it needs.
"""

from __future__ import annotations

import contextlib

import torch

from .events import Event


class Stream(Event):
    """`torch.cuda.Stream`; what it is made with means nothing here."""

    def record_event(self, event=None):
        event = Event() if event is None else event
        event.record()
        return event

    def wait_event(self, event):
        """Nothing: all is in order."""

    def wait_stream(self, stream):
        """Nothing: all is in order."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Leave the stream, which is the only one."""


def current_stream(device=None):
    return Stream()


def stream(stream):
    """`with torch.cuda.stream(...)`."""
    return contextlib.nullcontext(stream)


_stream = torch.cuda.stream


def _entered(one):
    return stream(one) if isinstance(one, Stream) else _stream(one)


def _recorded(tensor, stream):
    """`Tensor.record_stream`: nothing, since memory is not handed on too early."""


torch.cuda.stream, torch.Tensor.record_stream = _entered, _recorded
