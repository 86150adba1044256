"""Placement of arrays on all devices, by which `shard_batches()` distributes batches."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from . import module_to

_used: int | None = None


def use(count: int) -> None:
    """Lay the mesh over the first devices of this host."""
    global _used
    _used = count
    for function in (mesh, rows, replicated):
        function.cache_clear()


@functools.cache
def mesh() -> Any:
    """All devices, or those of `use()`, as a mesh of one dimension."""
    devices = jax.devices() if _used is None else jax.local_devices()[:_used]
    return Mesh(np.array(devices), ("data",))


@functools.cache
def rows() -> Any:
    """The sharding of a batch, by its first dimension."""
    return NamedSharding(mesh(), PartitionSpec("data"))


@functools.cache
def replicated() -> Any:
    """The sharding of an array that each device has as a whole."""
    return NamedSharding(mesh(), PartitionSpec())


def longest_dimension(shape: tuple[int, ...], count: int, fewest: int) -> int | None:
    """The longest dimension of a parameter that a number of devices divides, by which it is sharded.

    Args:
        shape: its shape.
        count: the number of devices.
        fewest: the number of elements from which on it is sharded.
    """
    lengths = [length if length % count == 0 else 0 for length in shape]
    if math.prod(shape) < fewest or not any(lengths):
        return None
    return lengths.index(max(lengths))


def along(dimension: int | None) -> Any:
    """The sharding of an array along one of its dimensions; None to replicate it."""
    if dimension is None:
        return replicated()
    return NamedSharding(mesh(), PartitionSpec(*(None,) * dimension, "data"))


def on_all_devices(array: Any) -> Any:
    """An array of which each device has a copy."""
    return jax.device_put(array, replicated())


def placed(array: Any) -> Any:
    """An array on all devices: sharded if its first dimension can be, and it is none of a moved module."""
    if module_to.is_moving() or array.ndim == 0 or array.shape[0] % mesh().size:
        return jax.device_put(array, replicated())
    return jax.device_put(array, rows())
