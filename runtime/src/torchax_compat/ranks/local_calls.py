"""Calls of torch functions with local tensors: once for each rank, or once for all of them.

Functions that compute each element on its own are called once, for tensors with one more dimension.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import torch
from torchax.tensor import Tensor
from torchax.view import View

from .. import ranks
from ..tensor import deferral
from . import local_numbers, local_tensor
from .local_tensor import LocalTensor

_T = torch.Tensor
#: Functions whose result is the same for all ranks.
_SAME = {
    *(_T.shape.__get__, _T.dtype.__get__, _T.device.__get__, _T.ndim.__get__, _T.layout.__get__),
    *(_T.requires_grad.__get__, _T.is_leaf.__get__, _T.grad_fn.__get__),
    *(_T.size, _T.dim, _T.numel, _T.nelement, _T.__len__, _T.is_floating_point, _T.is_complex, _T.stride),
    *(_T.is_contiguous, _T.element_size, _T.get_device, torch.is_tensor, torch.numel),
    *(torch.is_floating_point, torch.is_complex, _T.is_cuda.__get__, _T.is_sparse.__get__),
    *(_T.is_quantized.__get__, _T.is_meta.__get__, _T.itemsize.__get__),
}
#: Methods whose result a program prints, saves, or uses in conditions: that of rank 0.
_OF_FIRST = (
    *("numpy", "data_ptr", "__array__", "__repr__", "__str__", "__format__", "__bool__"),
    *("__float__", "__int__", "__index__", "__complex__", "__contains__", "__reduce_ex__", "__hash__"),
)
#: Longer lists have plain numbers, which are read faster.
_MOST_NUMBERS = 1 << 14
_BACKWARD = {_T.backward}
#: Functions that compute each element on its own.
_ELEMENTWISE = {
    f"{start}{name}{end}"
    for name in (
        *("add", "sub", "mul", "div", "truediv", "neg", "pow", "exp", "log", "abs", "sqrt", "clone"),
        *("detach", "float", "double", "half", "bfloat16", "long", "int", "bool", "eq", "ne", "gt", "ge"),
        *("lt", "le", "zero_", "fill_", "clamp", "sigmoid", "tanh", "relu", "square", "isnan", "isfinite"),
    )
    for start, end in (("", ""), ("", "_"), ("__", "__"), ("__r", "__"), ("__i", "__"))
}
#: Functions of tensors without `__torch_function__` names that write to the first argument.
_WRITING = {"__setitem__", "__set__", "__delete__"}


def concerns(types: Any, args: Any, kwargs: Any) -> bool:
    """Whether a call of a torch function has local tensors, or local numbers, among its arguments."""
    return (
        LocalTensor in types
        or local_numbers.are_among(args)
        or local_numbers.are_among((kwargs or {}).values())
    )


def result(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of a torch function that has local tensors, or local numbers, among its arguments."""
    replaced = _REPLACED.get(func)
    if replaced is not None:
        return replaced(*args, **kwargs)
    name = getattr(func, "__name__", "")
    if func in _SAME or func in _of_first():
        return _called(func, *local_tensor.of_rank((args, kwargs), 0))
    if func in _BACKWARD:
        return _backward(*args, **kwargs)
    target = args[0] if args and _writes(name) else kwargs.get("out")
    if isinstance(target, torch.Tensor) and not local_tensor.localize(target):
        raise RuntimeError(f"`{name}` writes values that differ between ranks to a parameter")
    if name in _ELEMENTWISE and func is not _T.data.__get__ and _are_whole(args, kwargs):
        made = func(*_wholes(args), **kwargs)
        return target if target is not None else LocalTensor(whole=made)
    count = ranks.count()
    given = [local_tensor.of_rank((args, kwargs), rank) for rank in range(count)]
    if isinstance(target, LocalTensor):
        target.was_written()
    results = [_called(func, args, kwargs) for args, kwargs in given]
    return target if target is not None and results[0] is not None else local_tensor.merged(results)


@functools.cache
def _of_first() -> frozenset[Any]:
    """The methods of `_OF_FIRST`, some of which the runtime patches."""
    return frozenset(getattr(_T, name) for name in _OF_FIRST)


def _called(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of a torch function; methods and attributes are those of the class of the first argument."""
    name, first = getattr(func, "__name__", ""), args[0] if args else None
    if not isinstance(first, (Tensor, View)):
        return func(*args, **kwargs)
    if name == "__get__":
        return getattr(first, func.__self__.__name__)
    if name == "__set__":
        return setattr(first, func.__self__.__name__, args[1])
    if name in vars(type(first)) and getattr(_T, name, None) == func:
        return getattr(first, name)(*args[1:], **kwargs)
    return func(*args, **kwargs)


def _writes(name: str) -> bool:
    if name in _WRITING or (name.startswith("__i") and name.endswith("__") and name not in _NOT_WRITING):
        return True
    return name.endswith("_") and not name.endswith("__") and name != "requires_grad_"


_NOT_WRITING = {"__invert__", "__index__", "__int__", "__iter__", "__init__"}


def _are_whole(args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether all tensors among the arguments are local ones of one shape, and not in parts."""
    shapes = set()
    for one in args:
        if type(one) is LocalTensor:
            if not one.has_whole():
                return False
            shapes.add(tuple(one.local_whole().shape))
        elif type(one) not in (int, float, bool, type(None)):
            return False
    return len(shapes) == 1 and not kwargs


def _wholes(args: Any) -> Any:
    return [one.local_whole() if type(one) is LocalTensor else one for one in args]


def _item(tensor: Any) -> Any:
    """The number of each rank, read at once."""
    if isinstance(tensor, LocalTensor) and tensor.has_whole():
        values = np.asarray(jax.device_get(tensor.local_whole().jax()))
        return local_numbers.number(values.reshape(ranks.count()).tolist())
    return local_numbers.number([part.item() for part in tensor.local_parts()])


def _to_list(tensor: Any) -> Any:
    """The numbers of a tensor in lists; long lists have those of rank 0 only."""
    if tensor.numel() > _MOST_NUMBERS:
        return local_tensor.of_rank(tensor, 0).tolist()
    return local_tensor.merged([part.tolist() for part in tensor.local_parts()])


def _moved(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """`tensor.to(...)`; from the host, each part goes to the device of its rank."""
    if not isinstance(tensor, LocalTensor):  # `tensor.to(local_tensor)`
        return _T.to(tensor, *local_tensor.of_rank(args, 0), **local_tensor.of_rank(kwargs, 0))
    args, kwargs = local_tensor.of_rank((args, kwargs), 0)
    if tensor.has_whole():
        moved = _T.to(tensor.local_whole(), *args, **kwargs)
        if isinstance(moved, (Tensor, View)):
            return LocalTensor(whole=moved)
        return LocalTensor(parts=list(moved))
    parts = tensor.local_parts()
    first = _T.to(parts[0], *args, **kwargs)
    is_moved = isinstance(first, (Tensor, View)) and not isinstance(parts[0], (Tensor, View))
    if is_moved and len({(tuple(part.shape), part.dtype) for part in parts}) == 1:
        whole = local_tensor.on_devices(parts)
        return LocalTensor(whole=whole if whole.dtype == first.dtype else whole.to(first.dtype))
    return LocalTensor(parts=[first, *(_T.to(part, *args, **kwargs) for part in parts[1:])])


def _to_host(tensor: Any, *_args: Any, **_kwargs: Any) -> Any:
    return _moved(tensor, "cpu")


def _to_device(tensor: Any, *_args: Any, **_kwargs: Any) -> Any:
    return _moved(tensor, "jax")


def _backward(tensor: Any, gradient: Any = None, *args: Any, **kwargs: Any) -> None:
    """`loss.backward()`: the gradients are averaged over the ranks, as by `DistributedDataParallel`."""
    share = 1.0 / ranks.count()
    if not isinstance(tensor, LocalTensor):
        raise TypeError("the gradients differ between ranks, and the tensor does not")
    if gradient is not None:
        gradient = gradient * share
    if tensor.has_whole():
        whole = tensor.local_whole()
        step = deferral.current
        if gradient is None and step is not None and step.backward(whole, None, *args, share=share, **kwargs):
            return
        if gradient is None:
            whole_gradient = torch.full_like(whole, share)
        elif isinstance(gradient, LocalTensor):
            whole_gradient = gradient.local_whole()
        else:
            whole_gradient = gradient.expand(whole.shape)
        _T.backward(whole, whole_gradient, *args, **kwargs)
        return
    parts = tensor.local_parts()
    gradients = [torch.full_like(part, share) for part in parts] if gradient is None else None
    if gradients is None:
        gradients = [local_tensor.of_rank(gradient, rank) for rank in range(ranks.count())]
    torch.autograd.backward(parts, gradients, *args, **kwargs)


def _set_items(tensor: Any, index: Any, value: Any) -> None:
    """`tensor[index] = value`, by the class of each part."""
    if not local_tensor.localize(tensor):
        raise RuntimeError("values that differ between ranks are written to a parameter")
    for rank, part in enumerate(tensor.local_parts()):
        part[local_tensor.of_rank(index, rank)] = local_tensor.of_rank(value, rank)
    tensor.was_written()


_REPLACED: dict[Any, Callable[..., Any]] = {
    _T.__setitem__: _set_items,
    _T.item: _item,
    _T.tolist: _to_list,
    _T.to: _moved,
    _T.cpu: _to_host,
    _T.cuda: _to_device,
}

LocalTensor.call = result
