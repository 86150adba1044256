"""Copies and assignments between tensors, `resize_`, `fill_diagonal_` and `copy.deepcopy`, as in PyTorch.

- CPU tensors may be copied into device tensors and the other way round, as on a GPU: `a[i] = b`,
  `a.copy_(b)`.
- `copy_` broadcasts, and in `a[i] = b`, `b` may have dimensions of size 1 in front that `a[i]` does not have.
- Tensors can be resized in place.
- `copy.deepcopy` copies tensors and modules, as `torch.optim.swa_utils` needs it.

`item_assignment.py` uses `assigning()`.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import torch
import torchax
from torchax.ops import jaten, jtorch, ops_registry  # noqa: F401 # which registers functions
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import DisableTorchFunction, pytree
from ..patches.declarations import TORCHAX, operator, patch, setup
from . import arrays, compiled_operations, dynamic_shapes, masks

_COPY = torch.ops.aten.copy_


_copy = ops_registry.all_aten_ops[_COPY].func


def _copied(x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
    """`x.copy_(y)`, between devices and between shapes."""
    if not isinstance(x, (Tensor, View)):
        return x.copy_(_on_host(y))
    if y.shape != x.shape:
        on_torchax = y if isinstance(y, (Tensor, View)) else arrays.tensor(arrays.of_host(y))
        y = torch.broadcast_to(on_torchax, x.shape)
    if isinstance(y, View):
        y = y.torch()
    return _copy(x, y, *args, **kwargs, env=torchax.default_env())


def _on_host(value: Any) -> Any:
    return torchax.default_env().j2t_copy(value.jax()) if isinstance(value, (Tensor, View)) else value


def _set_on_host(tensor: torch.Tensor, index: Any, value: Any) -> None:
    tensor[pytree.tree_map(_on_host, index)] = _on_host(value)


operator(
    _copied,
    _COPY,
    why="torchax's `copy_` neither broadcasts nor copies between host and device.",
    is_jax_function=False,
    is_user_defined=True,
    is_view_op=True,
)
operator(
    _set_on_host,
    torch.Tensor.__setitem__,
    why="torchax rejects device tensors as indices and values of a CPU tensor.",
    is_jax_function=False,
    is_user_defined=True,
)


def _with_diagonal(tensor: torch.Tensor, value: Any, wrap: bool = False) -> Any:
    """`tensor.fill_diagonal_(value)`; torchax fills a copy."""
    if not isinstance(tensor, (Tensor, View)):
        with DisableTorchFunction():
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


operator(
    _with_diagonal,
    torch.Tensor.fill_diagonal_,
    why="torchax fills a copy.",
    is_jax_function=False,
    is_user_defined=True,
)


def _resized(tensor: torch.Tensor, *size: Any, memory_format: Any = None) -> Any:  # noqa: ARG001 # torch's
    """`resize_`, in place: the elements that fit, in order, and zeros after them."""
    size = size[0] if size and not isinstance(size[0], int) else size
    flat, count = tensor.jax().ravel(), math.prod(size)
    filled = jax.numpy.zeros(count, flat.dtype).at[: flat.size].set(flat[:count]).reshape(size)
    torch.utils.swap_tensors(tensor, Tensor(filled, torchax.default_env()))  # torch keeps the size as well
    return tensor


def _resized_as(tensor: torch.Tensor, other: Any, memory_format: Any = None) -> Any:  # noqa: ARG001 # torch's
    return _resized(tensor, tuple(other.shape))


operator(
    _resized,
    torch.Tensor.resize_,
    why="torchax cannot resize a tensor in place.",
    is_jax_function=False,
    is_user_defined=True,
)
operator(
    _resized_as,
    torch.Tensor.resize_as_,
    torch.resize_as_,
    why="torchax cannot resize a tensor in place.",
    is_jax_function=False,
    is_user_defined=True,
)


@setup(
    "transpose_ and unsqueeze_",
    why="They change the shape in place, so torchax cannot copy the result into the old array.",
)
def _replace_array() -> Any:
    changed = [
        ops_registry.all_aten_ops[operation].func
        for operation in (torch.ops.aten.transpose_, torch.ops.aten.unsqueeze_)
    ]
    before = [one.replace for one in changed]
    for one in changed:
        one.replace = True

    def undo() -> None:
        for one, was in zip(changed, before, strict=False):
            one.replace = was

    return undo


def _in_dtype(value: Any, dtype: Any) -> Any:
    """A value for an integer or bool tensor, in its dtype, as in torch.

    JAX warns about other dtypes, and will reject them.
    """
    if dtype.is_floating_point or dtype.is_complex:
        return value
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.dtype != dtype else value
    if dtype == torch.bool and isinstance(value, (int, float)):
        return bool(value)
    return int(value) if isinstance(value, float) and math.isfinite(value) else value


_BASIC = frozenset({int, slice, type(None), type(...)})


def _place(array: Any, index: Any) -> Any:
    """The dimension and the index, if an index consists of full slices and an integer at the end; or None."""
    items = index if isinstance(index, tuple) else (index,)
    is_one = items and type(items[-1]) is int and all(map(_is_full, items[:-1]))
    if not is_one or len(items) > array.ndim or isinstance(array, jax.core.Tracer):
        return None
    dim, place = len(items) - 1, items[-1]
    return (dim, place) if -array.shape[dim] <= place < array.shape[dim] else None


def _refuse_places_out_of_range(shape: tuple[int, ...], index: Any) -> None:
    """Raise as torch does, if an integer of a basic index is out of range: JAX ignores such a write."""
    items = index if isinstance(index, tuple) else (index,)
    if not all(type(item) in _BASIC for item in items):
        return
    dim = 0
    for number, item in enumerate(items):
        if item is ...:
            dim = len(shape) - sum(other is not None for other in items[number + 1 :])
        elif item is not None:
            if type(item) is int and dim < len(shape) and not -shape[dim] <= item < shape[dim]:
                raise IndexError(f"index {item} is out of bounds for dimension {dim} with size {shape[dim]}")
            dim += 1


def _is_full(item: Any) -> bool:
    return type(item) is slice and item == slice(None)


def assigning(known: Any) -> Any:
    """torchax's item assignment, for all values that torch allows."""

    def set_items(self: Any, index: Any, value: Any) -> None:
        if isinstance(value, torch.Tensor) and not isinstance(value, (Tensor, View)):
            value = value.to("jax")
        _refuse_places_out_of_range(self.shape, index)
        value = _in_dtype(value, self.dtype)
        given = value.jax() if isinstance(value, (Tensor, View)) else value
        is_regular = type(self) is not Tensor or masks.are_asked(index)
        made = None if is_regular else dynamic_shapes.assigned(self._elem, index, given)
        if made is not None:
            self._elem = made
            return
        place = None if is_regular else _place(self._elem, index)
        try:
            if place is None:
                known(self, index, value)
            else:
                args = self._elem, *place, given
                self._elem = compiled_operations.computed(
                    compiled_operations.with_part, compiled_operations.with_part, args, {}
                )
        except ValueError:
            shape = list(getattr(value, "shape", ()))
            if shape[:1] != [1]:
                raise
            set_items(self, index, value.reshape(shape[1:]))

    return set_items


@patch(
    "torchax.tensor:Tensor.__deepcopy__",
    why="`copy.deepcopy` of a torchax tensor raises.",
    upstream=TORCHAX + "tensor.py",
)
@patch(
    "torchax.view:View.__deepcopy__", why="`copy.deepcopy` of a view raises.", upstream=TORCHAX + "view.py"
)
def _deep_copy(tensor: torch.Tensor, memo: Any) -> Any:
    """`copy.deepcopy` of a tensor, which shares the array: no array is changed in place."""
    made = Tensor(tensor.jax(), torchax.default_env())
    with DisableTorchFunction():
        wants_gradient = tensor.requires_grad
    if isinstance(tensor, torch.nn.Parameter):
        made = torch.nn.Parameter(made, wants_gradient)
    else:
        made.requires_grad_(wants_gradient)
    memo[id(tensor)] = made
    return made
