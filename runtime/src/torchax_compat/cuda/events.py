"""`torch.cuda.Event` for torchax: the host's clock, read after all arrays are computed.

JAX has no events.
`record()` waits until all live arrays are computed, and then reads the clock.
"""

from __future__ import annotations

import time

import torch

from ..environment import is_enabled


class Event:
    """`torch.cuda.Event`; on torchax, the arguments of the constructor are ignored.

    Where the runtime is not enabled, as in a program that runs on CUDA, the constructor returns a
    `torch.cuda.Event`.
    """

    def __new__(cls, *args, **kwargs):
        return super().__new__(cls) if is_enabled() else torch.cuda.Event(*args, **kwargs)

    def __init__(self, *args, **kwargs):
        self._read = None

    def record(self, stream=None):
        """Wait until all arrays are computed, and note the time."""
        self.synchronize()
        self._read = time.perf_counter()

    def synchronize(self):
        """Wait until all arrays are computed."""
        import jax

        jax.block_until_ready(jax.live_arrays())

    def wait(self, stream=None):
        """Does nothing: JAX runs operations in the order of the program."""

    def query(self):
        """True: a recorded event is always complete."""
        return True

    def elapsed_time(self, end):
        """The time from this event to `end`, in milliseconds.

        Raises:
            RuntimeError: one of the events was not recorded.
        """
        if self._read is None or end._read is None:
            raise RuntimeError("`elapsed_time` needs two recorded events: call `record()` on both first")
        return (end._read - self._read) * 1e3
