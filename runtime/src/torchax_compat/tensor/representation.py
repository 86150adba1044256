"""Printing and formatting of tensors, `tolist()`, and parameters that are created from tensors.

Importing this module patches them:

- A tensor prints as on a GPU, `tensor([1., 2.], device='jax:0')`; torchax prints the class of its array.
  Integers show no dtype, since all of them have 32 bits.
- A tensor with a single number can be formatted, as in `f"{loss:.4f}"`.
- `torch.Tensor(t)` returns `t`; torchax raises for it.
- A parameter may be created from a view.
- `is_contiguous` is true for other memory formats: XLA chooses how a tensor lies in memory.
"""

from __future__ import annotations

import jax
import torch
import torchax
from torch import _tensor_str
from torchax.tensor import Tensor
from torchax.view import View

from ..jit import concrete_values
from ..ops.registry import register
from . import arrays

_KINDS = (Tensor, View)
_UNSAID = (torch.int32, torch.bool)


def _on_host(tensor):
    return torchax.default_env().j2t_copy(tensor.jax())


def _on_demand(tensor):
    """Raise `asked.Unknown` if the text of a traced tensor is needed, which differs at each call."""
    if arrays.is_traced(tensor) and concrete_values.is_replayed():
        raise concrete_values.Unknown


def _formatted(tensor, form):
    is_number = tensor.ndim == 0 and (form or concrete_values.is_asked() or not arrays.is_traced(tensor))
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
