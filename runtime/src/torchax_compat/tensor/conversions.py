"""Faster moves to the device, casts, and creation of tensors on the device.

torchax traverses the arguments of such a call several times, and goes through its modes again for each
operation on the host: `x.to("jax")` takes 60 us on a CPU host, of which JAX needs 13 us.
Calls with unusual arguments take torchax's own path.
A tensor as `alpha` or `value`, for whose value PyTorch would wait, stays a tensor.
`dispatch.py` uses these functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import torch
from torchax.ops import mappings
from torchax.tensor import TENSOR_CONSTRUCTORS, Tensor
from torchax.view import View

from ..adapters.torch_internals import DisableTorchFunction, no_dispatch, pytree
from . import arrays, compiled_operations, copies, meta_tensors

_OF_DATA = {torch.tensor, torch.as_tensor}
_PLAIN = {bool, int, float, complex}
#: Options for where and how a tensor is created.
_OF_PLACE = {"device", "pin_memory", "requires_grad"}
_LIKE = {getattr(torch, f"{name}_like") for name in ("empty", "full", "ones", "rand", "randint", "randn")}
_LIKE |= {torch.zeros_like}
_LIKE |= {getattr(torch.Tensor, f"new_{name}") for name in ("empty", "full", "ones", "tensor", "zeros")}


def _moved(environment: Any, _func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """`tensor.to(device)` and `tensor.to(dtype)`; None for other calls."""
    if len(args) != 2 or not kwargs.keys() <= {"non_blocking"}:
        return None
    tensor, target = args
    if isinstance(target, torch.dtype):
        return cast(environment, tensor, target) if type(tensor) is Tensor else None
    if not _is_device(target):
        return None
    return _on_device(environment, tensor) if type(tensor) is torch.Tensor else None


def without_host(environment: Any, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Arguments with CPU tensors moved to the device, or None.

    No program for GPUs mixes them, so these were meant to be on the device, as those of
    `torch.cuda.FloatTensor` are.
    While a function is traced, CPU tensors with elements are not moved: they would become constants, though
    they may change.
    """
    leaves, tree = pytree.tree_flatten((args, kwargs))
    there = [leaf for leaf in leaves if isinstance(leaf, (Tensor, View))]
    left = {i for i, leaf in enumerate(leaves) if type(leaf) is torch.Tensor and leaf.ndim}
    if not there or not left or (0 in left and func._schema.is_mutable):
        return None
    is_traced = any(isinstance(tensor.jax(), jax.core.Tracer) for tensor in there)
    if any(leaves[i].requires_grad or (is_traced and leaves[i].numel()) for i in left):
        return None
    moved = [_on_device(environment, leaf) if i in left else leaf for i, leaf in enumerate(leaves)]
    if any(leaf is None for i, leaf in enumerate(moved) if i in left):
        return None
    return pytree.tree_unflatten(moved, tree)


def cast(environment: Any, tensor: torch.Tensor, dtype: Any) -> Any:
    """A device tensor converted to another dtype."""
    if tensor.dtype == dtype:
        return tensor
    return Tensor(compiled_operations.computed(_CAST, _cast, (tensor._elem, dtype), {}), environment)


_CAST = torch.ops.aten._to_copy.default


def _cast(array: Any, dtype: Any) -> Any:
    made = mappings.t2j_dtype(dtype)
    if jax.numpy.issubdtype(made, jax.numpy.integer):
        array = arrays.rounded(jax.numpy.trunc, array)
    return array.astype(made)


def _filled(environment: Any, data: Any, kwargs: dict[str, Any]) -> Any:
    """A device tensor with some numbers, or None."""
    if not kwargs.keys() <= {"device", "dtype"} or not _is_plain(data):
        return None
    with no_dispatch(), DisableTorchFunction():
        tensor = torch.tensor(data, dtype=kwargs.get("dtype"))
    return _on_device(environment, tensor)


def _made(environment: Any, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """A tensor that is created on the device, or None."""
    if type(kwargs.get("out")) is Tensor:
        return _made_into(func, args, **kwargs)
    if not _is_device(kwargs.get("device")):
        return None
    if func in _OF_DATA:
        return _filled(environment, args[0], kwargs) if len(args) == 1 else None
    operation = environment._ops.get(func)
    if (
        operation is None
        or not operation.is_jax_function
        or operation.needs_env
        or kwargs.get("requires_grad")
    ):
        return None
    result = compiled_operations.computed(func, operation.func, args, kwargs)
    return Tensor(result, environment)


def _made_into(func: Any, args: Any, out: Any, **kwargs: Any) -> Any:
    """`torch.zeros(..., out=tensor.new())`, where `out` was created for this, and only gives its dtype."""
    made = func(*args, **{"device": "jax", "dtype": out.dtype, **kwargs})
    out._elem = made._elem
    return made


def _new(environment: Any, _func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """`tensor.new(...)`, or None."""
    like, *given = args
    if kwargs or not isinstance(like, (Tensor, View)):
        return None
    if len(given) == 1 and isinstance(given[0], (list, tuple)) and not isinstance(given[0], torch.Size):
        return _filled(environment, given[0], {"dtype": like.dtype})
    sizes = given[0] if len(given) == 1 and isinstance(given[0], torch.Size) else given or (0,)
    if not all(type(size) is int for size in sizes):
        return None
    return Tensor(jax.numpy.zeros(sizes, mappings.t2j_dtype(like.dtype)), environment)


def _made_like(environment: Any, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """`torch.zeros_like(t, device=...)` and `t.new_zeros(..., device=...)` on another device, or None."""
    device = kwargs.get("device")
    if not args or device is None:
        return None
    place = None if isinstance(args[0], (Tensor, View)) else args[0].device.type
    comes = place in ("cpu", "meta") and (_is_device(device) or type(device) is int)
    if comes and place == "meta":
        args = meta_tensors.on_host(args[0]), *args[1:]
    leaves = isinstance(args[0], (Tensor, View)) and str(device) == "cpu"
    leaves = leaves and func is not torch.Tensor.new_tensor  # it handles `device` itself
    if not comes and not leaves:
        return None
    made = func(*args, **{name: value for name, value in kwargs.items() if name not in _OF_PLACE})
    made = environment._to_copy(made, None, "jax" if comes else "cpu")
    return made.requires_grad_() if kwargs.get("requires_grad") else made


def _scaled(_environment: Any, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """`a.add(b, alpha=c)`, or None."""
    times = _times(kwargs, "alpha", *args[1:2])
    return None if times is None or len(args) != 2 else func(args[0], times)


def _weighed(_environment: Any, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """`a.addcmul(b, c, value=d)` and `a.addcdiv(b, c, value=d)`, or None."""
    times = _times(kwargs, "value", *args[1:2])
    return None if times is None or len(args) != 3 else func(args[0], times, args[2])


def _times(kwargs: dict[str, Any], name: str, other: Any = None) -> Any:
    """A tensor times an argument that is a tensor with one element, in the dtype of the former, or None."""
    factor = kwargs.get(name)
    if not isinstance(factor, (Tensor, View)) or len(kwargs) != 1 or factor.requires_grad:
        return None
    if not isinstance(other, (Tensor, View)) or factor.numel() != 1:
        return None
    are_floats = factor.dtype.is_floating_point, other.dtype.is_floating_point
    if factor.dtype != other.dtype and are_floats != (True, True):
        return None
    return (other * (factor if factor.ndim == 0 else factor.reshape(()))).to(other.dtype)


def _given_data(_environment: Any, func: Any, args: Any, _kwargs: Any) -> Any:
    """`tensor.data = other` for a CPU tensor, which stays on the host, or None."""
    tensor, other = args
    if isinstance(tensor, (Tensor, View)) or not isinstance(other, (Tensor, View)):
        return None
    func(tensor, other.cpu())
    return _DONE


#: The result of a call without one; None would mean that it is not handled.
_DONE = ()


def _is_device(device: Any) -> bool:
    name = device.type if isinstance(device, torch.device) else device
    return isinstance(name, str) and name.partition(":")[0] == "jax"


def _is_plain(data: Any) -> bool:
    """Whether data are numbers, also of NumPy, alone or in lists."""
    type_ = type(data)
    if type_ in (list, tuple):
        return all(map(_is_plain, data))
    return type_ in _PLAIN or isinstance(data, (np.ndarray, np.generic))


def _on_device(environment: Any, tensor: torch.Tensor) -> Any:
    if tensor.layout is not torch.strided or tensor.requires_grad:
        return None
    return Tensor(copies.to_device(tensor), environment)


#: Functions that take the faster path if they can.
FUNCTIONS: dict[Any, Callable[..., Any]] = {torch.Tensor.to: _moved, torch.Tensor.new: _new}
FUNCTIONS[torch.Tensor.data.__set__] = _given_data
FUNCTIONS |= dict.fromkeys(TENSOR_CONSTRUCTORS, _made) | dict.fromkeys(_LIKE, _made_like)
FUNCTIONS |= dict.fromkeys((torch.add, torch.sub, torch.Tensor.add, torch.Tensor.sub), _scaled)
FUNCTIONS |= dict.fromkeys((torch.Tensor.add_, torch.Tensor.sub_), _scaled)
for _name in ("addcmul", "addcdiv"):
    _ways = getattr(torch, _name), getattr(torch.Tensor, _name), getattr(torch.Tensor, f"{_name}_")
    FUNCTIONS |= dict.fromkeys(_ways, _weighed)
