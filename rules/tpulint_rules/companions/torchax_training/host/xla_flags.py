"""What XLA is told for CPUs before it begins; importing this file tells it.

In jaxlib 0.10.2 what YNNPACK makes of sums over arrays of seven dimensions ends the process, as in RAFT, which
spreads its flow so.
Of products of matrices it makes the best there is: these it keeps.
"""

from __future__ import annotations

import os

import jaxlib
from jax._src import xla_bridge

_FLAG = "xla_cpu_experimental_ynn_fusion_type"

if jaxlib.__version__.startswith("0.10.") and not xla_bridge.backends_are_initialized():
    _flags = os.environ.get("XLA_FLAGS", "")
    if _FLAG not in _flags:  # which a version that does not know it would refuse
        os.environ["XLA_FLAGS"] = f"{_flags} --{_FLAG}=LIBRARY_FUSION_TYPE_DOT"
