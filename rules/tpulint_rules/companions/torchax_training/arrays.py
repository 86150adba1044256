"""Tensors of torchax and the arrays of JAX in them."""

from __future__ import annotations

import contextlib

import jax
import numpy
import torch
import torchax
from torch.utils._mode_utils import no_dispatch
from torchax.ops import mappings
from torchax.tensor import Tensor

#: Numbers that torch and NumPy have alike.
_NUMBERS = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
_NUMBERS |= {torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128}
_NAMES = {str(dtype).removeprefix("torch.") for dtype in _NUMBERS}
#: Bytes from which handing memory over takes less than a copy by JAX.
_LARGE = 1 << 16


def tensor(value):
    """A tensor of torchax around an array of JAX."""
    return Tensor(value, torchax.default_env())


def on_torchax(tensor):
    """A tensor of torchax: itself, what a view shows, or a copy on the device."""
    if isinstance(tensor, torchax.view.View):
        return tensor.torch()
    return tensor if isinstance(tensor, Tensor) else tensor.to("jax")


def of_host(tensor):
    """An array of what a tensor of the host holds, whatever is written to that from now on.

    It is bound to no device: what is compiled for arrays that are, as DLPack gives them, is so once more for
    others.
    """
    with no_dispatch(), torch._C.DisableTorchFunction():
        if tensor.dtype not in _NUMBERS or tensor.layout is not torch.strided:
            return mappings.t2j(tensor.clone(), use_dlpack=False)
        numbers = numpy.array(tensor.detach().resolve_conj().resolve_neg().numpy())
    return jax.numpy.asarray(numbers) if numbers.nbytes < _LARGE else jax.device_put(numbers)


def on_host(value):
    """A tensor of the host with what an array holds, of which NumPy and JAX keep one copy for all who ask."""
    with no_dispatch(), torch._C.DisableTorchFunction():
        if value.dtype.name not in _NAMES:
            return mappings.j2t(value, use_dlpack=False).clone()
        return torch.from_numpy(numpy.array(value))


def put(tensor, value):
    """Give a tensor of torchax another array; to what `detach()` gave of one it is no write."""
    getattr(tensor, "_of", tensor).apply_jax_(lambda _: value)


def write(tensor, value):
    """The same, where it is a write: what `detach()` gave of a tensor leaves that its gradient."""
    if hasattr(tensor, "_of"):
        tensor._elem = value
    else:
        put(tensor, value)


def computed_once(values):
    """Arrays of floats that XLA does not compute again for each use, with another rounding, as it may on a CPU.

    It takes barriers away before it decides what to compute where, and no branches.
    """
    is_traced = all(isinstance(value, jax.core.Tracer) and value.size for value in values)
    if jax.default_backend() != "cpu" or not is_traced:
        return values
    is_number = values[0].ravel()[0] < jax.numpy.inf  # which XLA does not know
    return jax.lax.cond(is_number, lambda same: same, lambda same: [x - x + x for x in same], values)


def rounded(function, value):
    """A rounding of floats, from which both an index and a weight may be made; other arrays as they are."""
    if jax.numpy.issubdtype(value.dtype, jax.numpy.floating):
        (value,) = computed_once([function(value)])
    return value


def widened(value):
    """An array of half precision in 32 bits, which sums of many parts want; any other as it is."""
    return value.astype("float32") if jax.numpy.finfo(value.dtype).bits < 32 else value


def computes_on_torchax(tensors):
    """Whether tensors are on torchax, and none of them is being traced."""
    on = [tensor for tensor in tensors if isinstance(tensor, Tensor)]
    return bool(on) and not any(isinstance(tensor.jax(), jax.core.Tracer) for tensor in on)


def is_traced(value):
    """Whether a value is a tensor of torchax that JAX traces."""
    is_there = isinstance(value, (Tensor, torchax.view.View))
    return is_there and isinstance(value.jax(), jax.core.Tracer)


@contextlib.contextmanager
def entered():
    """The torchax environment, left as it was."""
    environment = torchax.default_env()
    before = environment.enabled
    try:
        with environment:
            yield
    finally:
        environment.enabled = before  # which leaving it forgets


def first_line(error):
    """What an error says first."""
    return str(error).splitlines()[0]
