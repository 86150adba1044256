"""`torch.cuda.Event` for torchax: the host's clock, read after all arrays are computed.

JAX has no events.
`record()` waits until all live arrays are computed, and then reads the clock.
"""

from __future__ import annotations

import time
from typing import Any, Self

import torch

from ..environment import is_enabled


class Event:
    """`torch.cuda.Event`; on torchax, the arguments of the constructor are ignored.

    Where the runtime is not enabled, as in a program that runs on CUDA, the constructor returns a
    `torch.cuda.Event`.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """An event, or one of CUDA where the runtime is not enabled."""
        return super().__new__(cls) if is_enabled() else torch.cuda.Event(*args, **kwargs)

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self.recorded_at: float | None = None

    def record(self, stream: object = None) -> None:  # noqa: ARG002 # CUDA's; there is only one stream
        """Wait until all arrays are computed, and note the time."""
        self.synchronize()
        self.recorded_at = time.perf_counter()

    def synchronize(self) -> None:
        """Wait until all arrays are computed."""
        import jax

        jax.block_until_ready(jax.live_arrays())

    def wait(self, stream: object = None) -> None:
        """Does nothing: JAX runs operations in the order of the program."""

    def query(self) -> bool:
        """True: a recorded event is always complete."""
        return True

    def elapsed_time(self, end: Event) -> float:
        """The time from this event to `end`, in milliseconds.

        Raises:
            RuntimeError: one of the events was not recorded.
        """
        if self.recorded_at is None or end.recorded_at is None:
            raise RuntimeError("`elapsed_time` needs two recorded events: call `record()` on both first")
        return (end.recorded_at - self.recorded_at) * 1e3
