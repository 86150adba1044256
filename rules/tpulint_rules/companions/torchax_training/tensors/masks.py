"""Masks that pick elements in traced functions: `losses[mask]`, `mask.nonzero()`, `torch.masked_select`.

How many they pick is asked: where that stays the same, as for those nodes of a graph that are trained on, a
function is compiled as a whole; where it keeps changing, call by call.
Importing this file brings that in.
"""

from __future__ import annotations

import jax.numpy as jnp
import torch
from torchax.ops import jaten
from torchax.tensor import Tensor
from torchax.view import View

from .. import arrays
from ..operators.registry import register
from ..tracing import asked


def are_asked(index):
    """Whether an index holds masks of which is asked how many elements they pick."""
    return asked.is_asked() and any(map(_is_mask, index if type(index) is tuple else (index,)))


def places(index):
    """An index, in which the places of what they pick stand for masks that are traced."""
    if not are_asked(index):
        return index
    items = index if type(index) is tuple else (index,)
    made = []
    for one in items:
        found = _places_of(one.jax()) if _is_mask(one) else None
        made += [one] if found is None else map(arrays.tensor, found)
    return tuple(made)


def _is_mask(item):
    return isinstance(item, (Tensor, View)) and item.dtype == torch.bool and item.ndim > 0


def _places_of(mask):
    """The places of what a mask picks; None where it is not traced, or nothing may be asked of it."""
    if not asked.is_asked():
        return None
    number = arrays.tensor(jnp.count_nonzero(mask))
    count = asked.session().ask(number, lambda: number.jax().item(), int)
    return jnp.nonzero(mask, size=count) if asked.is_replayed() and arrays.is_traced(number) else None


def _nonzero(x, as_tuple=False):
    found = _places_of(x != 0) if x.ndim and not as_tuple else None
    return jaten._aten_nonzero(x, as_tuple) if found is None else jnp.stack(found, axis=-1)


def _masked_select(x, mask):
    x, mask = jnp.broadcast_arrays(x, mask)
    found = _places_of(mask)
    return x[mask if found is None else found]


register(_nonzero, torch.ops.aten.nonzero, torch.ops.aten.nonzero.default)
register(_masked_select, torch.ops.aten.masked_select, torch.ops.aten.masked_select.default)
