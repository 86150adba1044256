"""Printing and formatting of tensors, `tolist()`, and parameters that are created from tensors.

- A tensor prints as on a GPU, `tensor([1., 2.], device='jax:0')`; torchax prints the class of its array.
  Integers show no dtype, since all of them have 32 bits.
- A tensor with a single number can be formatted, as in `f"{loss:.4f}"`.
- `torch.Tensor(t)` returns `t`; torchax raises for it.
- A parameter may be created from a view.
- `is_contiguous` is true for other memory formats: XLA chooses the layout in memory.
"""

from __future__ import annotations

from typing import Any

import jax
import torch
import torchax
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import DisableTorchFunction, contents_as_text, with_suffixes
from ..jit import concrete_values
from ..patches.declarations import TORCH, TORCHAX, operator, patch
from . import arrays

_TORCHAX_TENSORS = (Tensor, View)
_UNSAID = (torch.int32, torch.bool)


def _on_host(tensor: torch.Tensor) -> Any:
    return torchax.default_env().j2t_copy(tensor.jax())


def _on_demand(tensor: torch.Tensor) -> None:
    """Raise `UnknownAnswerError` if the text of a traced tensor is needed, which differs at each call."""
    if arrays.is_traced(tensor) and concrete_values.is_replaying():
        raise concrete_values.UnknownAnswerError


def _formatted(tensor: torch.Tensor, form: Any) -> Any:
    is_number = tensor.ndim == 0 and (form or concrete_values.is_active() or not arrays.is_traced(tensor))
    return format(tensor.item() if is_number else str(tensor), form)


def _shown(plain: Any) -> Any:
    """The `repr` of a class of tensors; traced tensors print as before."""

    def text(tensor: torch.Tensor, *, tensor_contents: Any = None) -> Any:  # noqa: ARG001 # torch's
        _on_demand(tensor)
        if arrays.is_traced(tensor):
            return plain(tensor)
        with DisableTorchFunction():
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
        with DisableTorchFunction():
            content = contents_as_text(_on_host(tensor), len("tensor("))
        return with_suffixes(head + content, about, len("tensor("), force_newline=False)

    return text


for _type in _TORCHAX_TENSORS:
    _class = f"{_type.__module__}:{_type.__name__}"
    _text = _shown(_type.__repr__)
    patch(f"{_class}.__format__", why="Formatting a tensor with a single number raises.")(_formatted)
    patch(f"{_class}.__repr__", why="A tensor prints the class of its array in place of its device.")(_text)
    patch(f"{_class}.__str__", why="A tensor prints the class of its array in place of its device.")(_text)


@patch(
    "torchax.tensor:Tensor.tolist",
    why="torchax's raises for tensors that JAX differentiates.",
    upstream=TORCHAX + "tensor.py",
)
@patch("torchax.view:View.tolist", why="Views of torchax have no `tolist`.", upstream=TORCHAX + "view.py")
def _as_list(tensor: torch.Tensor) -> Any:
    """`Tensor.tolist`, also of tensors that JAX differentiates."""
    return jax.lax.stop_gradient(tensor.jax()).tolist()


@patch("torchax.view:View.numpy", why="Views of torchax have no `numpy`.", upstream=TORCHAX + "view.py")
def _as_array(view: Any) -> Any:
    return view.torch().numpy()


_make = Tensor.__init__


@patch(
    "torchax.tensor:Tensor.__init__",
    why="`torch.Tensor(t)` raises for a torchax tensor.",
    upstream=TORCHAX + "tensor.py",
)
def _made(tensor: torch.Tensor, value: Any, env: Any = None, *args: Any, **kwargs: Any) -> None:
    """`Tensor.__init__`; for `torch.Tensor(t)`, which passes its argument, the tensor exists already."""
    if env is not None:
        _make(tensor, value, env, *args, **kwargs)


_new_parameter = torch.nn.Parameter.__new__


def _parameter(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
    """`torch.nn.Parameter`, also of a tensor or a view, with data of its own."""
    if not isinstance(data, (Tensor, View)):
        return _new_parameter(cls, data, requires_grad)
    value = data.jax()
    made = arrays.tensor(jax.lax.stop_gradient(value) if isinstance(value, jax.core.Tracer) else value)
    made._is_param = True  # how torch recognizes parameters of other tensor classes
    return made.requires_grad_(requires_grad)


patch(
    "torch.nn:Parameter.__new__",
    why="A parameter cannot be created from a view, and shares its autograd graph with a tensor.",
    upstream=TORCH + "nn/parameter.py",
)(staticmethod(_parameter))


def _uniform_like(tensor: torch.Tensor, *, dtype: Any = None, device: Any = None, **_options: Any) -> Any:
    """`torch.rand_like`, created on the device."""
    return torch.rand(tensor.shape, dtype=dtype or tensor.dtype, device=device or "jax")


operator(
    _uniform_like,
    torch.rand_like,
    torch.ops.aten.rand_like.default,
    why="torchax's ignores `device`.",
    is_jax_function=False,
    is_user_defined=True,
)


def _are_close(one: Any, other: Any, *args: Any, **kwargs: Any) -> bool:
    """`torch.allclose`, which is a bool, not a tensor."""
    result = jax.numpy.allclose(one.jax(), other.jax(), *args, **kwargs)
    return Tensor(result, torchax.default_env()) if isinstance(result, jax.core.Tracer) else bool(result)


operator(
    _are_close,
    torch.allclose,
    torch.Tensor.allclose,
    why="torchax returns a tensor in place of a bool.",
    is_jax_function=False,
    is_user_defined=True,
)


_is_contiguous = torch.Tensor.is_contiguous


@patch(
    "torchax.tensor:Tensor.is_contiguous",
    why="It is false for `channels_last`, where XLA chooses the layout in memory.",
    upstream=TORCHAX + "tensor.py",
)
@patch(
    "torchax.view:View.is_contiguous",
    why="It is false for `channels_last`, where XLA chooses the layout in memory.",
    upstream=TORCHAX + "view.py",
)
def _is_contiguous_in_format(tensor: torch.Tensor, *, memory_format: Any = torch.contiguous_format) -> Any:
    """`tensor.is_contiguous(memory_format=torch.channels_last)`."""
    if memory_format is torch.contiguous_format:
        return _is_contiguous(tensor)
    return tensor.ndim == (4 if memory_format is torch.channels_last else 5)
