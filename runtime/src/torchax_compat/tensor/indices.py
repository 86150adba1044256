"""Indices of tensors, in the form that JAX accepts.

PyTorch accepts ranges, lists, CPU tensors and numbers in tensors, also beside each other.
In `x[0, :, [1, 2]]`, PyTorch takes row 0 first, so that the list indexes the last dimension of a matrix; JAX
and NumPy treat the number like a list, and put the dimension of the list in front.
"""

from __future__ import annotations

import operator
from typing import Any

import jax
import numpy as np
import torch
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import DisableTorchFunction, pytree
from ..jit import dynamic_slices
from . import arrays

_TORCHAX_TENSORS = (Tensor, View)
_NUMBERS = {int, bool}


def plain(key: Any) -> Any:
    """An index as JAX accepts it: without ranges, lists and CPU tensors."""
    if type(key) is list and _is_like_tuple(key):
        key = tuple(key)
    return tuple(map(_item, key)) if isinstance(key, tuple) else _item(key)


def _is_like_tuple(items: Any) -> bool:
    """Whether PyTorch treats a list as a tuple of indices: it holds more than numbers."""
    return any(
        one is None or one is Ellipsis or isinstance(one, (slice, list, tuple, range, torch.Tensor))
        for one in items
    )


def _item(key: Any) -> Any:
    if key is None or type(key) in _NUMBERS:
        return key
    if isinstance(key, slice):
        bounds = key.start, key.stop, key.step
        return slice(*map(_bound, bounds))
    if isinstance(key, _TORCHAX_TENSORS):
        return key != 0 if key.dtype == torch.uint8 else key
    if isinstance(key, torch.Tensor):
        with DisableTorchFunction():
            key = key.detach().numpy()
    elif isinstance(key, np.generic):
        return key.item()
    if isinstance(key, np.ndarray):
        key = key.astype(bool) if key.dtype == np.uint8 else key
        return key if key.ndim else key.item()
    return _of_list(key) if isinstance(key, (list, tuple, range)) else key


def _of_list(items: Any) -> Any:
    leaves = pytree.tree_leaves(list(items))
    if all(type(one) in _NUMBERS or isinstance(one, np.generic) for one in leaves):
        return np.asarray(items, None if leaves else int)
    if not any(map(_is_tensor, leaves)):
        return items  # placeholders of a traced function, for example
    numbers = [one.jax() if isinstance(one, _TORCHAX_TENSORS) else _item(one) for one in items]
    return arrays.tensor(jax.numpy.stack([jax.numpy.asarray(one) for one in numbers]))


def _bound(bound: Any) -> Any:
    return operator.index(bound) if isinstance(bound, (torch.Tensor, np.integer)) else bound


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def is_basic(index: Any) -> bool:
    """Whether an index, as `plain` gives it, has only numbers, slices, `None` and `...`."""
    return all(_is_basic(one) for one in (index if type(index) is tuple else (index,)))


def _is_basic(item: Any) -> bool:
    if type(item) is slice:
        return all(bound is None or type(bound) is int for bound in (item.start, item.stop, item.step))
    return item is None or item is Ellipsis or type(item) is int


def view_at(tensor: torch.Tensor, index: Any, environment: Any) -> Any:
    """The view for an index with numbers in device tensors, such as `x[i, :3]`; None for other indices."""
    items = index if type(index) is tuple else (index,)
    if not all(_is_basic(one) or _is_number(one) for one in items):
        return None
    return View(
        tensor,
        dynamic_slices.Span(tuple(one.jax() if _is_number(one) else one for one in items)),
        environment,
    )


def _is_number(item: Any) -> bool:
    return (
        isinstance(item, _TORCHAX_TENSORS) and not item.ndim and item.dtype not in (torch.bool, torch.uint8)
    )


def picks(index: Any) -> bool:
    """Whether an index selects single elements, for which torch creates a new tensor instead of a view."""
    return any(_picks(one) for one in (index if type(index) is tuple else (index,)))


def _picks(item: Any) -> Any:
    return isinstance(item, list | bool) or (hasattr(item, "ndim") and not _is_number(item))


def stages(index: Any) -> Any:
    """An index as two indices, one after the other, as PyTorch computes it; None if one is enough.

    PyTorch takes numbers, slices and `None` first. JAX gives another shape if one of these is between a
    number and a list.
    """
    items = index if type(index) is tuple else (index,)
    chosen = [i for i, one in enumerate(items) if _picks(one)]
    numbers = [i for i, one in enumerate(items) if type(one) is int or _is_number(one)]
    if not chosen or not numbers:
        return None
    both = {*chosen, *numbers}
    if len(both) == max(both) - min(both) + 1:
        return None
    first, then = [], []
    for one in items:
        if _picks(one):
            first += [slice(None)] * _dimensions(one)
            then.append(one)
        elif type(one) is int or _is_number(one):
            first.append(one)
        else:
            first.append(one)
            then.append(one if one is Ellipsis else slice(None))
    return tuple(first), tuple(then)


def _dimensions(item: Any) -> Any:
    """The number of dimensions that an index of single elements takes."""
    if isinstance(item, bool):
        return 0
    return item.ndim if str(item.dtype).endswith("bool") else 1
