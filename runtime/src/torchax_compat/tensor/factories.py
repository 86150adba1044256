"""Tensors that are created from tensors, and from sizes or bounds that are tensors.

- `torch.tensor(t)` is a copy on the device of `t`. `torch.tensor([a, [b, 2]])` takes one number from each
  tensor in the lists, whatever its number of dimensions, and is on the host, as for GPU tensors. torchax
  creates tensors without data, or of other shapes and dtypes.
- Sizes and bounds may be tensors with one number, as in `torch.arange(lengths.max())`, also on the host.

`dispatch.py` uses these functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import index
from typing import Any

import jax
import numpy as np
import torch
import torchax
from torchax.ops import mappings
from torchax.tensor import TENSOR_CONSTRUCTORS, Tensor
from torchax.view import View

from ..jit import concrete_values
from ..patches.declarations import operator
from . import arrays

_TORCHAX_TENSORS = (Tensor, View)
#: Functions that create tensors from sizes or bounds.
SIZED = {*TENSOR_CONSTRUCTORS, torch.randperm, torch.randint_like} - {torch.tensor, torch.as_tensor}
#: Functions whose first argument is a tensor that gives the shape.
_LIKE = {torch.randint_like}
_OF_DATA = (torch.tensor, torch.as_tensor)


def holds_tensors(func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether `torch.tensor` or `torch.as_tensor` is given tensors that torchax would misread."""
    if func not in _OF_DATA or not args:
        return False
    is_there = torchax.default_env()._should_use_torchax_tensor(kwargs.get("device"))
    if isinstance(args[0], torch.Tensor):
        return func is torch.tensor and (is_there or isinstance(args[0], _TORCHAX_TENSORS))
    if not isinstance(args[0], (list, tuple)):
        return False
    return any(
        isinstance(one, _TORCHAX_TENSORS) or (is_there and isinstance(one, torch.Tensor))
        for one in _leaves(args[0])
    )


def _leaves(data: Any) -> Iterator[Any]:
    """The numbers, arrays and tensors in lists."""
    for one in data:
        if isinstance(one, (list, tuple)):
            yield from _leaves(one)
        else:
            yield one


def made_of(
    data: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,  # noqa: ARG001 # torch's; JAX copies from any memory
) -> Any:
    """`torch.tensor(data)`: a copy of a tensor on its device, or the numbers of several on the host."""
    if isinstance(data, torch.Tensor):
        made = _copied(data, device)
        made = made if dtype is None else made.to(dtype)
    else:
        made = _of_numbers(data, dtype, device)
    return made.requires_grad_() if requires_grad else made


def _copied(data: Any, device: Any) -> Any:
    """A copy of a tensor on a device, by default its own, without its gradient."""
    is_held = isinstance(data, _TORCHAX_TENSORS)
    if device is None or not torchax.default_env()._should_use_torchax_tensor(device):
        return data.detach().clone().to(data.device if device is None else device)
    return arrays.tensor(jax.lax.stop_gradient(data.jax()) if is_held else arrays.of_host(data))


def _of_numbers(data: Any, dtype: Any, device: Any) -> Any:
    leaves = list(_leaves(data)) if isinstance(data, (list, tuple)) else []
    tensors = [one for one in leaves if isinstance(one, torch.Tensor)]
    if not tensors:
        return torch.tensor(data, dtype=dtype, device=device)
    if any(one.numel() != 1 for one in tensors):
        raise ValueError("only one element tensors can be converted to Python scalars")
    made_dtype = dtype or _promoted(leaves)
    if torchax.default_env()._should_use_torchax_tensor(device):
        wanted = jax.dtypes.canonicalize_dtype(mappings.t2j_dtype(made_dtype))
        return arrays.tensor(jax.numpy.asarray(_each(data, lambda one: _array(one, wanted)), wanted))
    known = iter(jax.device_get([one.jax() for one in tensors if isinstance(one, _TORCHAX_TENSORS)]))
    return torch.tensor(_each(data, lambda one: _number(one, known)), dtype=made_dtype, device=device)


def _each(data: Any, change: Any) -> Any:
    """Lists with each tensor in them changed."""
    if isinstance(data, (list, tuple)):
        return [_each(one, change) for one in data]
    return change(data) if isinstance(data, torch.Tensor) else data


def _number(tensor: torch.Tensor, known: Any) -> Any:
    return next(known).item() if isinstance(tensor, _TORCHAX_TENSORS) else tensor.item()


def _array(tensor: torch.Tensor, dtype: Any) -> Any:
    array = tensor.jax() if isinstance(tensor, _TORCHAX_TENSORS) else arrays.of_host(tensor)
    return jax.lax.stop_gradient(array.reshape(()).astype(dtype))


def _promoted(leaves: Any) -> Any:
    """The dtype of a tensor that holds these numbers."""
    dtypes = set(map(_dtype_of, leaves))
    made = dtypes.pop()
    for one in dtypes:
        made = torch.promote_types(made, one)
    return made


def _dtype_of(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        # Integers of the device have 32 bits in place of 64.
        return torch.int64 if leaf.dtype == torch.int32 and isinstance(leaf, _TORCHAX_TENSORS) else leaf.dtype
    if isinstance(leaf, (np.ndarray, np.generic)):
        return torch.from_numpy(np.zeros(0, leaf.dtype)).dtype
    if isinstance(leaf, bool):
        return torch.bool
    if isinstance(leaf, int):
        return torch.int64
    return torch.complex64 if isinstance(leaf, complex) else torch.get_default_dtype()


def as_array(kwargs: dict[str, Any]) -> Any:
    """The function that replaces `torch.asarray`, which torchax lacks, and its arguments."""
    options = {name: value for name, value in kwargs.items() if value is not None and value is not False}
    is_new = options.pop("copy", False) or "requires_grad" in options
    return torch.tensor if is_new else torch.as_tensor, options


def sized(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The arguments of a function that creates a tensor, with numbers for tensors that are sizes or bounds.

    The value for `torch.full` may stay on the device.
    """
    if not kwargs and all(type(value) is int for value in args):
        return args, kwargs
    like, args = (args[:1], args[1:]) if func in _LIKE else ((), args)
    if like:
        is_there = isinstance(like[0], _TORCHAX_TENSORS)
    else:
        is_there = torchax.default_env()._should_use_torchax_tensor(kwargs.get("device"))
    # torch itself accepts tensors of the host for the host.
    converted = torch.Tensor if is_there else _TORCHAX_TENSORS

    def number(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(number, value)) if type(value) in (list, tuple) else value
        if not isinstance(value, converted):
            return value
        if value.is_floating_point():
            return float(value)
        return concrete_values.length(value) if isinstance(value, _TORCHAX_TENSORS) else index(value)

    options = {name: value if name == "out" else number(value) for name, value in kwargs.items()}
    if func is torch.full and is_there:
        value = args[1] if len(args) > 1 else kwargs.get("fill_value")
        if isinstance(value, _TORCHAX_TENSORS):
            options.pop("fill_value", None)
            size = number(args[0]) if args else options.pop("size")
            return (size, value.jax().reshape(())), options
    return (*like, *map(number, args)), options


def _new_tensor(
    tensor: torch.Tensor,
    data: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,  # noqa: ARG001 # torch's; JAX copies from any memory
) -> Any:
    """`tensor.new_tensor`, of data."""
    with torchax.default_env():
        made = made_of(data, dtype=dtype or tensor.dtype, device=device or tensor.device)
    return made.requires_grad_() if requires_grad else made


def _new(tensor: torch.Tensor, *given: Any, device: Any = None) -> Any:
    """`tensor.new`, of a size or of data."""
    if len(given) == 1 and not isinstance(given[0], (int, torch.Size)):
        return _new_tensor(tensor, given[0], device=device)
    with torchax.default_env():
        return torch.empty(*given or (0,), dtype=tensor.dtype, device=device or tensor.device)


operator(
    _new_tensor,
    torch.Tensor.new_tensor,
    why="torchax lacks `new_tensor` of tensors.",
    is_jax_function=False,
    is_user_defined=True,
)
operator(
    _new,
    torch.Tensor.new,
    why="torchax lacks `new`.",
    is_jax_function=False,
    is_user_defined=True,
)
