"""Placement of arrays on all devices, by which `shard_batches()` distributes batches."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from . import module_to

_used: int | None = None
_model = 1


def use(count: int, model: int = 1) -> None:
    """Lay the mesh over the first devices of this host.

    Args:
        count: the number of devices over which a batch is sharded.
        model: the number of devices over which parameters are.
    """
    global _used, _model
    _used, _model = count * model, model
    _clear()


def forget() -> None:
    """Lay the mesh over all devices again."""
    global _used, _model
    _used, _model = None, 1
    _clear()


def _clear() -> None:
    for function in (mesh, rows, replicated):
        function.cache_clear()


@functools.cache
def mesh() -> Any:
    """All devices, or those of `use()`; the dimension `model` has one device unless `use()` has set it."""
    devices = jax.devices() if _used is None else jax.local_devices()[:_used]
    return Mesh(np.array(devices).reshape(-1, _model), ("data", "model"))


@functools.cache
def rows() -> Any:
    """The sharding of a batch, by its first dimension."""
    return NamedSharding(mesh(), PartitionSpec("data"))


@functools.cache
def replicated() -> Any:
    """The sharding of an array that each device has as a whole."""
    return NamedSharding(mesh(), PartitionSpec())


def by(spec: Any) -> Any:
    """The sharding of an array by a partition spec."""
    return NamedSharding(mesh(), spec)


def longest_dimension(
    shape: tuple[int, ...], count: int, fewest: int, taken: Collection[int] = ()
) -> int | None:
    """The longest dimension of a parameter that a number of devices divides, by which it is sharded.

    Args:
        shape: its shape.
        count: the number of devices.
        fewest: the number of elements from which on it is sharded.
        taken: dimensions by which it is sharded already.
    """
    lengths = [
        length if length % count == 0 and number not in taken else 0 for number, length in enumerate(shape)
    ]
    if math.prod(shape) < fewest or not any(lengths):
        return None
    return lengths.index(max(lengths))


def on_all_devices(array: Any) -> Any:
    """An array of which each device has a copy."""
    return jax.device_put(array, replicated())


def placed(array: Any) -> Any:
    """An array on all devices: sharded if its first dimension can be, and it is none of a moved module."""
    if module_to.is_moving() or array.ndim == 0 or array.shape[0] % mesh().shape["data"]:
        return jax.device_put(array, replicated())
    return jax.device_put(array, rows())
