"""Boolean masks in traced functions: `losses[mask]`, `mask.nonzero()`, `torch.masked_select`.

The number of elements that a mask selects is an answer (`jit/concrete_values.py`).
If it stays the same, as for the nodes of a graph that are used for training, the function is compiled as a
whole.
If it keeps changing, the function runs call by call.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import torch
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torchax_internals import nonzero
from ..jit import concrete_values
from ..patches.declarations import operator
from . import arrays


def are_asked(index: Any) -> bool:
    """Whether an index holds masks whose number of elements is an answer."""
    return concrete_values.is_active() and any(map(_is_mask, index if type(index) is tuple else (index,)))


def places(index: Any) -> Any:
    """An index with the positions of the selected elements in place of traced masks."""
    if not are_asked(index):
        return index
    items = index if type(index) is tuple else (index,)
    made: list[Any] = []
    for one in items:
        found = _places_of(one.jax()) if _is_mask(one) else None
        made += [one] if found is None else map(arrays.tensor, found)
    return tuple(made)


def _is_mask(item: Any) -> bool:
    return isinstance(item, (Tensor, View)) and item.dtype == torch.bool and item.ndim > 0


def _places_of(mask: Any) -> Any:
    """The positions of the elements that a mask selects; None if it is not traced, or has no answer."""
    if not concrete_values.is_active():
        return None
    number = arrays.tensor(jnp.count_nonzero(mask))
    count = concrete_values.session().ask(number, lambda: number.jax().item(), int)
    return (
        jnp.nonzero(mask, size=count) if concrete_values.is_replaying() and arrays.is_traced(number) else None
    )


def _nonzero(x: Any, as_tuple: bool = False) -> Any:
    found = _places_of(x != 0) if x.ndim and not as_tuple else None
    return nonzero(x, as_tuple) if found is None else jnp.stack(found, axis=-1)


def _masked_select(x: Any, mask: Any) -> Any:
    x, mask = jnp.broadcast_arrays(x, mask)
    found = _places_of(mask)
    return x[mask if found is None else found]


operator(
    _nonzero,
    torch.ops.aten.nonzero,
    torch.ops.aten.nonzero.default,
    why="JAX cannot trace it, as the shape of the result depends on values.",
)
operator(
    _masked_select,
    torch.ops.aten.masked_select,
    torch.ops.aten.masked_select.default,
    why="JAX cannot trace it, as the shape of the result depends on values.",
)
