"""Shardings of parameters, which they keep when a program writes to them.

A write such as `copy_` or `uniform_` replaces the array of a parameter, and loses its sharding.
`restore()` shards it again before the next call of a compiled function.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
import torch
from jax.sharding import NamedSharding, PartitionSpec
from torch.utils.weak import WeakIdKeyDictionary
from torchax.tensor import Tensor

from . import array_groups, arrays

_kept = WeakIdKeyDictionary()


class Kept(NamedTuple):
    """How a tensor is sharded."""

    sharding: Any
    #: The mesh and the placements that it has as a `DTensor`, or None.
    declared: Any


def keep(tensor: torch.Tensor, sharding: Any, declared: Any = None) -> None:
    """Shard a tensor, now if it is on torchax, and again after each write to it."""
    _kept[tensor] = Kept(sharding, declared)
    _restore(tensor, sharding)


def pass_on(tensor: torch.Tensor, new: torch.Tensor) -> None:
    """Let a tensor keep the sharding of a parameter that it replaces, or that it is a copy of."""
    if tensor in _kept and getattr(new, "_of", new) is not tensor:
        keep(new, *_kept[tensor])


def of(tensor: torch.Tensor) -> Kept | None:
    """How a tensor is sharded, if it keeps that; also for its `data`."""
    found: Kept | None = _kept.get(getattr(tensor, "_of", tensor))
    return found


def restore() -> None:
    """Shard tensors again that have lost their sharding."""
    if len(_kept):
        for tensor, kept in list(_kept.items()):
            _restore(tensor, kept.sharding)


def follow(tensor: torch.Tensor, state: torch.Tensor) -> None:
    """Shard what an optimizer has for a tensor as the tensor itself; replicate it if its shape is another."""
    kept = _kept.get(tensor)
    if kept is None:
        return
    is_like = state.shape == tensor.shape
    _restore(state, kept.sharding if is_like else NamedSharding(kept.sharding.mesh, PartitionSpec()))


def forget() -> None:
    """Let tensors keep no shardings."""
    _kept.clear()


def _restore(tensor: torch.Tensor, sharding: Any) -> None:
    if isinstance(tensor, Tensor):
        array_groups.release(tensor)
    array = vars(tensor).get("_elem") if isinstance(tensor, Tensor) else None
    if array is None or isinstance(array, jax.core.Tracer):
        return
    if not array.sharding.is_equivalent_to(sharding, array.ndim):
        arrays.put(tensor, placed(array, sharding))


def placed(array: Any, sharding: Any) -> Any:
    """An array with a sharding, over devices of this process, or of several which all have the array."""
    if sharding.is_fully_addressable or not array.is_fully_addressable:
        return jax.device_put(array, sharding)
    values = np.asarray(array)
    return jax.make_array_from_callback(values.shape, sharding, values.__getitem__)
