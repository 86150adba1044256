"""Shardings of parameters, which they keep when a program writes to them.

A write such as `copy_` or `uniform_` replaces the array of a parameter, and loses its sharding.
`restore()` shards it again before the next call of a compiled function.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import torch
from jax.sharding import NamedSharding, PartitionSpec
from torch.utils.weak import WeakIdKeyDictionary
from torchax.tensor import Tensor

from . import arrays

_kept = WeakIdKeyDictionary()


def keep(tensor: torch.Tensor, sharding: Any) -> None:
    """Shard a tensor, now if it is on torchax, and again after each write to it."""
    _kept[tensor] = sharding
    _restore(tensor, sharding)


def pass_on(tensor: torch.Tensor, new: torch.Tensor) -> None:
    """Let a new parameter keep the sharding of the one that it replaces."""
    if tensor in _kept:
        keep(new, _kept[tensor])


def of(tensor: torch.Tensor) -> Any:
    """The sharding that a tensor keeps, or None."""
    return _kept.get(tensor)


def restore() -> None:
    """Shard tensors again that have lost their sharding."""
    if len(_kept):
        for tensor, sharding in list(_kept.items()):
            _restore(tensor, sharding)


def follow(tensor: torch.Tensor, state: torch.Tensor) -> None:
    """Shard what an optimizer has for a tensor as the tensor itself; replicate it if its shape is another."""
    sharding = _kept.get(tensor)
    if sharding is None:
        return
    if state.shape != tensor.shape:
        sharding = NamedSharding(sharding.mesh, PartitionSpec())
    _restore(state, sharding)


def forget() -> None:
    """Let tensors keep no shardings."""
    _kept.clear()


def _restore(tensor: torch.Tensor, sharding: Any) -> None:
    array = vars(tensor).get("_elem") if isinstance(tensor, Tensor) else None
    if array is None or isinstance(array, jax.core.Tracer):
        return
    if not array.sharding.is_equivalent_to(sharding, array.ndim):
        arrays.put(tensor, placed(array, sharding))


def placed(array: Any, sharding: Any) -> Any:
    """An array with a sharding, which may be over the devices of several processes that all have the array."""
    if sharding.is_fully_addressable or not array.is_fully_addressable:
        return jax.device_put(array, sharding)
    values = np.asarray(array)
    return jax.make_array_from_callback(values.shape, sharding, values.__getitem__)
