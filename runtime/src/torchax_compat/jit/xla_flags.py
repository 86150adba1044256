"""An XLA flag that avoids a crash of jaxlib 0.10 on CPUs.

In jaxlib 0.10.2, YNNPACK ends the process for sums over arrays with seven dimensions, as RAFT upsamples its
flow.
It is the fastest for matrix products, so it stays enabled for these.
The flag has no effect once a backend is initialized, so `enable()` sets it before it imports other modules.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import jaxlib

from ..adapters.jax_internals import backends_are_initialized
from ..patches.declarations import setup

_FLAG = "xla_cpu_experimental_ynn_fusion_type"


@setup("XLA_FLAGS", why="In jaxlib 0.10 on CPUs, sums over arrays with seven dimensions end the process.")
def set_flags() -> Callable[[], None]:
    """Set the flag in `XLA_FLAGS`, for jaxlib 0.10, if it is not set and no backend is initialized yet.

    Returns:
        A function that restores `XLA_FLAGS`.
    """
    flags = os.environ.get("XLA_FLAGS")
    is_late = not jaxlib.__version__.startswith("0.10.") or backends_are_initialized()
    if is_late or _FLAG in (flags or ""):  # a version without the flag would reject it
        return lambda: None
    os.environ["XLA_FLAGS"] = f"{flags or ''} --{_FLAG}=LIBRARY_FUSION_TYPE_DOT"

    def undo() -> None:
        if flags is None:
            os.environ.pop("XLA_FLAGS", None)
        else:
            os.environ["XLA_FLAGS"] = flags

    return undo
