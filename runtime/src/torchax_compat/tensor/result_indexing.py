"""Indexing of results of decorated functions, such as `losses[0]`, with gradients.

torchax returns views without an autograd graph, so the gradient would be missing.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import torch
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import DisableTorchFunction
from . import arrays

_BOUNDS = (int, type(None))


def wants_gradient(tensor: torch.Tensor) -> Any:
    """Whether gradients have to go through an index of this tensor."""
    if not torch.is_grad_enabled() or isinstance(tensor._elem, jax.core.Tracer):
        return False
    with DisableTorchFunction():
        return tensor.requires_grad


def are_places(index: Any) -> bool:
    """Whether JAX accepts an index, except for tensors in it."""
    places = index if isinstance(index, tuple) else (index,)
    bounds = [b for one in places if isinstance(one, slice) for b in (one.start, one.stop, one.step)]
    types = (int, np.ndarray, slice, type(None), type(Ellipsis), Tensor, View)
    return all(isinstance(one, types) for one in places) and all(isinstance(b, _BOUNDS) for b in bounds)


def of(tensor: torch.Tensor, index: Any) -> Any:
    """`tensor[index]`, in memory of its own."""
    places = index if isinstance(index, tuple) else (index,)
    return _Part.apply(tensor, tuple(map(_of_jax, places)))


def _of_jax(place: Any) -> Any:
    return place.jax() if isinstance(place, (Tensor, View)) else place


class _Part(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, whole: Any, index: Any) -> Any:
        ctx.index, ctx.type = index, jax.typeof(whole.jax())
        return arrays.tensor(whole.jax()[index])

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        nothing = jax.numpy.zeros(ctx.type.shape, ctx.type.dtype)
        return arrays.tensor(nothing.at[ctx.index].add(arrays.on_torchax(gradient).jax())), None
