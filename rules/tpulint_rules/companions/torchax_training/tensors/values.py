"""Printing and formatting of tensors, `tolist()`, and tensors that are created from tensors.

Importing this module patches them:

- A tensor prints as on a GPU, `tensor([1., 2.], device='jax:0')`; torchax prints the class of its array.
  Integers show no dtype, since all of them have 32 bits.
- A tensor with a single number can be formatted, as in `f"{loss:.4f}"`.
- `torch.tensor(t)` is a copy on the device of `t`, and `torch.tensor([a, b])` of two tensors has their
  numbers on the host, as for GPU tensors. torchax creates tensors without data from both, and raises for
  `torch.Tensor(t)` and `t.new([1, 2])`.
- A parameter may be created from a view.
- Sizes and bounds may be tensors with one number, as in `torch.arange(lengths.max())`.
- `is_contiguous` is true for other memory formats: XLA chooses how a tensor lies in memory.
"""

from __future__ import annotations

import jax
import torch
import torchax
from torch import _tensor_str
from torch.utils import _pytree as pytree
from torchax.tensor import TENSOR_CONSTRUCTORS, Tensor
from torchax.view import View

from .. import arrays
from ..operators.registry import register
from ..tracing import asked

_KINDS = (Tensor, View)
_UNSAID = (torch.int32, torch.bool)
#: Functions that create tensors from sizes or bounds.
SIZED = {*TENSOR_CONSTRUCTORS, torch.randperm} - {torch.tensor, torch.as_tensor}


def _on_host(tensor):
    return torchax.default_env().j2t_copy(tensor.jax())


def _on_demand(tensor):
    """Raise `asked.Unknown` if the text of a traced tensor is needed, which differs at each call."""
    if arrays.is_traced(tensor) and asked.is_replayed():
        raise asked.Unknown


def _formatted(tensor, form):
    is_number = tensor.ndim == 0 and (form or asked.is_asked() or not arrays.is_traced(tensor))
    return format(tensor.item() if is_number else str(tensor), form)


def _shown(plain):
    """The `repr` of a class of tensors; traced tensors print as before."""

    def text(tensor, *, tensor_contents=None):
        _on_demand(tensor)
        if arrays.is_traced(tensor):
            return plain(tensor)
        with torch._C.DisableTorchFunction():
            wants_gradient, node = tensor.requires_grad, tensor.grad_fn
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        head = "Parameter containing:\ntensor(" if is_parameter else "tensor("
        about = [f"device='{tensor.device}'"]
        if tensor.dtype not in (torch.get_default_dtype(), *_UNSAID):
            about.append(f"dtype={tensor.dtype}")
        if node is not None:
            about.append(f"grad_fn=<{type(node).__name__}>")
        elif wants_gradient:
            about.append("requires_grad=True")
        with torch._C.DisableTorchFunction():
            content = _tensor_str._tensor_str(_on_host(tensor), len("tensor("))
        return _tensor_str._add_suffixes(head + content, about, len("tensor("), False)

    return text


for _kind in _KINDS:
    _kind.__format__, _kind.__repr__ = _formatted, _shown(_kind.__repr__)
    _kind.__str__ = _kind.__repr__


def _as_list(tensor):
    """`Tensor.tolist`, also of tensors that JAX differentiates."""
    return jax.lax.stop_gradient(tensor.jax()).tolist()


Tensor.tolist = View.tolist = _as_list
View.numpy = lambda view: view.torch().numpy()


_make = Tensor.__init__


def _made(tensor, value, env=None, *args, **kwargs):
    """`Tensor.__init__`; for `torch.Tensor(t)`, which passes its argument, the tensor exists already."""
    if env is not None:
        _make(tensor, value, env, *args, **kwargs)


Tensor.__init__ = _made


def holds_tensors(func, args, kwargs):
    """Whether `torch.tensor` or `torch.as_tensor` is given torchax tensors that torchax would misread."""
    if func not in (torch.tensor, torch.as_tensor) or not args:
        return False
    data = args[0]
    if isinstance(data, _KINDS) and func is torch.as_tensor:
        return False
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    device = kwargs.get("device")
    return isinstance(data, _KINDS) and not torchax.default_env()._should_use_torchax_tensor(device)


def made_of(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """`torch.tensor(data)`: a copy of a tensor on its device, or the numbers of several on the host."""
    if isinstance(data, _KINDS):
        made = data.detach().clone().to(data.device if device is None else device)
        made = made if dtype is None else made.to(dtype)
    else:
        numbers = pytree.tree_map(
            lambda item: item.tolist() if isinstance(item, torch.Tensor) else item, data
        )
        made = torch.tensor(numbers, dtype=dtype, device=device)
    return made.requires_grad_() if requires_grad else made


def as_array(kwargs):
    """The function that replaces `torch.asarray`, which torchax lacks, and its arguments."""
    told = {name: value for name, value in kwargs.items() if value is not None and value is not False}
    is_new = told.pop("copy", False) or "requires_grad" in told
    return torch.tensor if is_new else torch.as_tensor, told


def sized(func, args, kwargs):
    """The arguments of a function that creates a tensor, with numbers for tensors that are sizes or bounds.

    The value for `torch.full` may stay on the device.
    """
    if not kwargs and all(type(value) is int for value in args):
        return args, kwargs
    is_there = torchax.default_env()._should_use_torchax_tensor(kwargs.get("device"))

    def number(value):
        if isinstance(value, (list, tuple)):
            return type(value)(map(number, value)) if type(value) in (list, tuple) else value
        if not isinstance(value, _KINDS):
            return value
        return float(value) if value.is_floating_point() else asked.length(value)

    if func is torch.full and is_there:
        return (number(args[0]), *args[1:]) if args else args, kwargs
    options = {name: value if name == "out" else number(value) for name, value in kwargs.items()}
    return tuple(map(number, args)), options


def _new_tensor(tensor, data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """`tensor.new_tensor`, of data."""
    with torchax.default_env():
        made = made_of(data, dtype=dtype or tensor.dtype, device=device or tensor.device)
    return made.requires_grad_() if requires_grad else made


def _new(tensor, *given, device=None):
    """`tensor.new`, of a size or of data."""
    if len(given) == 1 and not isinstance(given[0], (int, torch.Size)):
        return _new_tensor(tensor, given[0], device=device)
    with torchax.default_env():
        return torch.empty(*given or (0,), dtype=tensor.dtype, device=device or tensor.device)


register(_new_tensor, torch.Tensor.new_tensor, by_jax=False, is_user_defined=True)
register(_new, torch.Tensor.new, by_jax=False, is_user_defined=True)


_new_parameter = torch.nn.Parameter.__new__


def _parameter(cls, data=None, requires_grad=True):
    """`torch.nn.Parameter`, also of a tensor or a view, with data of its own."""
    if not isinstance(data, (Tensor, View)):
        return _new_parameter(cls, data, requires_grad)
    value = data.jax()
    made = arrays.tensor(jax.lax.stop_gradient(value) if isinstance(value, jax.core.Tracer) else value)
    made._is_param = True  # how torch recognizes parameters of other tensor classes
    return made.requires_grad_(requires_grad)


torch.nn.Parameter.__new__ = staticmethod(_parameter)


def _uniform_like(tensor, *, dtype=None, device=None, **_options):
    """`torch.rand_like`, created on the device."""
    return torch.rand(tensor.shape, dtype=dtype or tensor.dtype, device=device or "jax")


register(_uniform_like, torch.rand_like, torch.ops.aten.rand_like.default, by_jax=False, is_user_defined=True)


def _are_close(one, other, *args, **kwargs):
    """`torch.allclose`, which is a bool, not a tensor."""
    result = jax.numpy.allclose(one.jax(), other.jax(), *args, **kwargs)
    return Tensor(result, torchax.default_env()) if isinstance(result, jax.core.Tracer) else bool(result)


register(_are_close, torch.allclose, torch.Tensor.allclose, by_jax=False, is_user_defined=True)


_is_contiguous = torch.Tensor.is_contiguous


def _lies_so(tensor, *, memory_format=torch.contiguous_format):
    """`tensor.is_contiguous(memory_format=torch.channels_last)`."""
    if memory_format is torch.contiguous_format:
        return _is_contiguous(tensor)
    return tensor.ndim == (4 if memory_format is torch.channels_last else 5)


Tensor.is_contiguous = View.is_contiguous = _lies_so
