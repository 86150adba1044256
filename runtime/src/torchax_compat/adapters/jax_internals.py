"""The private names of JAX that the runtime uses."""

from __future__ import annotations

from jax._src.array import ArrayImpl as ArrayImpl  # the class of arrays with values
from jax._src.xla_bridge import (
    backends_are_initialized as backends_are_initialized,  # whether JAX has started
)
