"""Conversions between torchax tensors, JAX arrays and CPU tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import torch
import torchax
from torchax.ops import mappings
from torchax.tensor import Tensor

from ..adapters.torch_internals import DisableTorchDispatch, DisableTorchFunction, no_dispatch

#: Dtypes that torch and NumPy share.
_NUMBERS = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
_NUMBERS |= {torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128}
_NAMES = {str(dtype).removeprefix("torch.") for dtype in _NUMBERS}
#: From this many bytes on, JAX takes over NumPy's memory, which is faster than a copy.
_LARGE = 1 << 16


#: The attribute of a tensor for the group of tensors that keeps its array (`array_groups.py`).
KEEPER = "_kept_by"


def tensor(value: Any) -> Any:
    """A torchax tensor around a JAX array."""
    return Tensor(value, torchax.default_env())


def on_torchax(tensor: torch.Tensor) -> Any:
    """The torchax tensor of a tensor: itself, the contents of a view, or a copy on the device."""
    if isinstance(tensor, torchax.view.View):
        return tensor.torch()
    return tensor if isinstance(tensor, Tensor) else tensor.to("jax")


def of_host(tensor: torch.Tensor) -> Any:
    """A JAX array with a copy of a CPU tensor; later writes to the tensor do not change it.

    It is not committed to a device: committed arrays, as those from DLPack, would cause a second compilation.
    """
    numbers = numbers_of_host(tensor)
    return jax.numpy.asarray(numbers) if numbers.nbytes < _LARGE else jax.device_put(numbers)


def numbers_of_host(tensor: torch.Tensor) -> Any:
    """A NumPy array with a copy of a CPU tensor; a JAX array if NumPy does not have its type."""
    with DisableTorchDispatch(), DisableTorchFunction():
        if tensor.dtype not in _NUMBERS or tensor.layout is not torch.strided:
            return mappings.t2j(tensor.clone(), use_dlpack=False)
        return np.array(tensor.detach().resolve_conj().resolve_neg().numpy())


def on_host(value: Any) -> Any:
    """A CPU tensor with a copy of a JAX array; NumPy and JAX share one cached copy between all callers."""
    with no_dispatch(), DisableTorchFunction():
        if value.dtype.name not in _NAMES:
            return mappings.j2t(value, use_dlpack=False).clone()
        return torch.from_numpy(np.array(value))


def array_of(tensor: torch.Tensor) -> Any:
    """The array of a tensor, which is copied to the device if it is not on torchax."""
    if type(tensor) is Tensor and "_taken" not in tensor.__dict__ and "_elem" in tensor.__dict__:
        return tensor.__dict__["_elem"]  # a method would take as long as the step of a small layer
    return on_torchax(tensor).jax()


def put(tensor: torch.Tensor, value: Any) -> None:
    """Replace the array of a torchax tensor; for a tensor from `detach()` or `data`, that of its source."""
    if type(tensor) is Tensor:
        if KEEPER in tensor.__dict__:
            tensor._elem = value
        else:
            tensor.__dict__["_elem"] = value
        return
    getattr(tensor, "_of", tensor).apply_jax_(lambda _: value)


def write(tensor: torch.Tensor, value: Any) -> None:
    """Write an array to a torchax tensor; a write to a tensor from `detach()` keeps the source's gradient."""
    if hasattr(tensor, "_of"):
        tensor._elem = value
    else:
        put(tensor, value)


def computed_once(values: Any) -> Any:
    """Float arrays that XLA does not compute again for each use, with another rounding, as it may on a CPU.

    XLA removes optimization barriers before it decides where to compute what, but it keeps branches.
    """
    is_traced = all(isinstance(value, jax.core.Tracer) and value.size for value in values)
    if jax.default_backend() != "cpu" or not is_traced:
        return values
    is_number = values[0].ravel()[0] < jax.numpy.inf  # XLA cannot know this
    return jax.lax.cond(is_number, lambda same: same, lambda same: [x - x + x for x in same], values)


def rounded(function: Callable[..., Any], value: Any) -> Any:
    """Round floats so that an index and a weight that use the result agree; other arrays are unchanged."""
    if jax.numpy.issubdtype(value.dtype, jax.numpy.floating):
        (value,) = computed_once([function(value)])
    return value


def widened(value: Any) -> Any:
    """Half precision as float32, for sums of many terms; other arrays are unchanged."""
    return value.astype("float32") if jax.numpy.finfo(value.dtype).bits < 32 else value


def computes_on_torchax(tensors: Any) -> bool:
    """Whether one of the tensors is on torchax, and none of them is being traced."""
    on = [tensor for tensor in tensors if isinstance(tensor, Tensor)]
    return bool(on) and not any(isinstance(_present(tensor), jax.core.Tracer) for tensor in on)


def _present(tensor: torch.Tensor) -> Any:
    """The array of a tensor; None for one that is computed later, or kept by a group."""
    held = tensor.__dict__
    return held.get("_elem") if type(tensor) is Tensor and "_taken" not in held else array_of(tensor)


def is_traced(value: Any) -> bool:
    """Whether a value is a torchax tensor that JAX is tracing."""
    is_there = isinstance(value, (Tensor, torchax.view.View))
    return is_there and isinstance(value.jax(), jax.core.Tracer)


@contextlib.contextmanager
def entered() -> Iterator[Any]:
    """Enter the torchax environment, and restore its previous state on exit."""
    environment = torchax.default_env()
    before = environment.enabled
    try:
        with environment:
            yield
    finally:
        environment.enabled = before  # torchax does not restore it


def first_line(error: Any) -> Any:
    """The first line of an error message, or the type of an error without one."""
    return (str(error).splitlines() or [type(error).__name__])[0]
