"""Items of tensors, set and read as torch lets them be; importing this file brings that in.

A tensor of the host may be copied into one of the device and the other way round, as on a GPU: `a[i] = b`,
`a.copy_(b)`; `copy_` broadcasts; and `b` may have dimensions of size 1 in front that `a[i]` has not.
A tensor can be resized in place.
Tensors, and so modules, can be copied by `copy.deepcopy`, as `torch.optim.swa_utils` does.
"""

from __future__ import annotations

import math

import jax
import torch
import torchax
from torch.utils import _pytree as pytree
from torchax.ops import jaten, jtorch, ops_registry  # noqa: F401 # which registers functions
from torchax.tensor import Tensor
from torchax.view import View

from ..operators.registry import register
from . import irregular, masks, operations

_COPY = torch.ops.aten.copy_


_copy = ops_registry.all_aten_ops[_COPY].func


def _copied(x, y, *args, **kwargs):
    """`x.copy_(y)`, between devices and between shapes."""
    if not isinstance(x, (Tensor, View)):
        return x.copy_(_on_host(y))
    if y.shape != x.shape:
        y = torch.broadcast_to(y.to("jax"), x.shape)
    if isinstance(y, View):
        y = y.torch()
    return _copy(x, y, *args, **kwargs, env=torchax.default_env())


def _on_host(value):
    return torchax.default_env().j2t_copy(value.jax()) if isinstance(value, (Tensor, View)) else value


def _set_on_host(tensor, index, value):
    tensor[pytree.tree_map(_on_host, index)] = _on_host(value)


register(_copied, _COPY, by_jax=False, is_user_defined=True, is_view_op=True)
register(_set_on_host, torch.Tensor.__setitem__, by_jax=False, is_user_defined=True)


def _with_diagonal(tensor, value, wrap=False):
    """`tensor.fill_diagonal_(value)`, which torchax does to a copy."""
    if not isinstance(tensor, (Tensor, View)):
        with torch._C.DisableTorchFunction():
            return tensor.fill_diagonal_(value, wrap)
    rows, count = tensor.shape[0], tensor.numel()
    if tensor.ndim == 2:
        step, end = tensor.shape[1] + 1, count if wrap else tensor.shape[1] ** 2
    else:
        step, end = (count - 1) // max(1, rows - 1) or 1, count  # a cube
    filled = tensor.jax().ravel().at[: min(end, count) : step].set(value).reshape(tensor.shape)
    if isinstance(tensor, View):
        tensor.update(filled)
    else:
        tensor.apply_jax_(lambda _: filled)
    return tensor


register(_with_diagonal, torch.Tensor.fill_diagonal_, by_jax=False, is_user_defined=True)


def _resized(tensor, *size, memory_format=None):
    """`resize_`, in place: the elements that fit, one after the other, and zeros behind them."""
    size = size[0] if size and not isinstance(size[0], int) else size
    flat, count = tensor.jax().ravel(), math.prod(size)
    filled = jax.numpy.zeros(count, flat.dtype).at[: flat.size].set(flat[:count]).reshape(size)
    torch.utils.swap_tensors(tensor, Tensor(filled, torchax.default_env()))  # torch itself knows sizes, too
    return tensor


def _resized_as(tensor, other, memory_format=None):
    return _resized(tensor, tuple(other.shape))


register(_resized, torch.Tensor.resize_, by_jax=False, is_user_defined=True)
register(_resized_as, torch.Tensor.resize_as_, torch.resize_as_, by_jax=False, is_user_defined=True)

# In place, these give a tensor another shape, which is not a copy into the one that it had.
for _operator in (torch.ops.aten.transpose_, torch.ops.aten.unsqueeze_):
    ops_registry.all_aten_ops[_operator].func.replace = True


def _of_kind(value, dtype):
    """A value that is put into a tensor of integers or truth values as one of these, as torch takes it.

    JAX warns of others, and will refuse them.
    """
    if dtype.is_floating_point or dtype.is_complex:
        return value
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.dtype != dtype else value
    if dtype == torch.bool and isinstance(value, (int, float)):
        return bool(value)
    return int(value) if isinstance(value, float) and math.isfinite(value) else value


def _place(array, index):
    """The dimension along which an index is one place, all along those in front of it, and the place; or None."""
    items = index if isinstance(index, tuple) else (index,)
    is_one = items and type(items[-1]) is int and all(item == slice(None) for item in items[:-1])
    if not is_one or len(items) > array.ndim or isinstance(array, jax.core.Tracer):
        return None
    dim, place = len(items) - 1, items[-1]
    return (dim, place) if -array.shape[dim] <= place < array.shape[dim] else None


def _setting(known):
    """An item assignment of torchax, with what torch allows for the value."""

    def set_items(self, index, value):
        if isinstance(value, torch.Tensor) and not isinstance(value, (Tensor, View)):
            value = value.to("jax")
        value = _of_kind(value, self.dtype)
        given = value.jax() if isinstance(value, (Tensor, View)) else value
        is_regular = type(self) is not Tensor or masks.are_asked(index)
        made = None if is_regular else irregular.assigned(self._elem, index, given)
        if made is not None:
            self._elem = made
            return
        place = None if is_regular else _place(self._elem, index)
        try:
            if place is None:
                known(self, index, value)
            else:
                args = self._elem, *place, given
                self._elem = operations.computed(operations.with_part, operations.with_part, args, {})
        except ValueError:
            shape = list(getattr(value, "shape", ()))
            if shape[:1] != [1]:
                raise
            set_items(self, index, value.reshape(shape[1:]))

    return set_items


Tensor.__setitem__, View.__setitem__ = _setting(Tensor.__setitem__), _setting(View.__setitem__)


def _deep_copy(tensor, memo):
    """`copy.deepcopy` of a tensor, which shares the array: nothing changes one in place."""
    made = Tensor(tensor.jax(), torchax.default_env())
    with torch._C.DisableTorchFunction():
        wants_gradient = tensor.requires_grad
    if isinstance(tensor, torch.nn.Parameter):
        made = torch.nn.Parameter(made, wants_gradient)
    else:
        made.requires_grad_(wants_gradient)
    memo[id(tensor)] = made
    return made


Tensor.__deepcopy__ = View.__deepcopy__ = _deep_copy
