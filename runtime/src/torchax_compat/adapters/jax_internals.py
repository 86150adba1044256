"""The private names of JAX that the runtime uses."""

from __future__ import annotations

from typing import Any

from jax._src import distributed
from jax._src.array import ArrayImpl as ArrayImpl  # the class of arrays with values
from jax._src.core import trace_state_clean as trace_state_clean  # whether JAX traces nothing
from jax._src.xla_bridge import (
    backends_are_initialized as backends_are_initialized,  # whether JAX has started
)


def coordination() -> Any:
    """The client of the service by which processes find each other, or None."""
    return distributed.global_state.client


def array_of_parts(value: ArrayImpl, sharding: Any) -> Any:
    """An array with another sharding, and the same shape and parts on the devices of this process.

    `jax.make_array_from_single_device_arrays` takes five times as long.
    """
    return ArrayImpl(value.aval, sharding, value._arrays, committed=True, _skip_checks=True)
