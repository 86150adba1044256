"""Sets an XLA flag that avoids a crash of jaxlib 0.10 on CPUs.

In jaxlib 0.10.2, YNNPACK ends the process for sums over arrays with seven dimensions, as RAFT upsamples its
flow.
It is the fastest for matrix products, so it stays enabled for these.
Importing this module sets the flag in `XLA_FLAGS`, for jaxlib 0.10, if no backend is initialized yet.
"""

from __future__ import annotations

import os

import jaxlib
from jax._src import xla_bridge

_FLAG = "xla_cpu_experimental_ynn_fusion_type"

if jaxlib.__version__.startswith("0.10.") and not xla_bridge.backends_are_initialized():
    _flags = os.environ.get("XLA_FLAGS", "")
    if _FLAG not in _flags:  # a version without the flag would reject it
        os.environ["XLA_FLAGS"] = f"{_flags} --{_FLAG}=LIBRARY_FUSION_TYPE_DOT"
