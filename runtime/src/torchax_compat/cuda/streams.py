"""`torch.cuda.Stream` for torchax: no effect, since JAX runs operations in the order of the program."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import Any, Self

import torch

from ..environment import is_enabled
from ..patches.declarations import TORCH, patch
from .events import Event


class Stream(Event):
    """`torch.cuda.Stream`; on torchax, the arguments of the constructor are ignored.

    Where the runtime is not enabled, as in a program that runs on CUDA, the constructor returns a
    `torch.cuda.Stream`.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """A stream, or one of CUDA where the runtime is not enabled."""
        return object.__new__(cls) if is_enabled() else torch.cuda.Stream(*args, **kwargs)

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, by default a new one, and return it."""
        event = Event() if event is None else event
        event.record()
        return event

    def wait_event(self, event: object) -> None:
        """Does nothing: there is only one stream."""

    def wait_stream(self, stream: object) -> None:
        """Does nothing: there is only one stream."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing: there is only one stream."""


def current_stream(device: Any = None) -> Stream:
    """`torch.cuda.current_stream`."""
    return Stream() if is_enabled() else torch.cuda.current_stream(device)


def stream(stream: Stream | None) -> AbstractContextManager[Any]:
    """`torch.cuda.stream`, for `with torch.cuda.stream(...)`."""
    return contextlib.nullcontext(stream) if is_enabled() else torch.cuda.stream(stream)


_stream = torch.cuda.stream


@patch(
    "torch.cuda:stream",
    why="`torch.cuda.stream` in other files gets the streams of torchax, which it does not know.",
    upstream=TORCH + "cuda/__init__.py",
)
def _entered(one: Any) -> Any:
    return contextlib.nullcontext(one) if isinstance(one, Stream) else _stream(one)


@patch(
    "torch:Tensor.record_stream",
    why="It rejects streams that are not of CUDA; JAX frees memory only after its last use.",
)
def _recorded(tensor: torch.Tensor, stream: Any) -> None:
    """`Tensor.record_stream`, which has nothing to do."""
