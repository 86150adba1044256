"""`torch.nn.utils.clip_grad_norm_`, compiled: it has three operations for each parameter."""

from __future__ import annotations

import functools
from typing import Any

import jax
import torch
from torchax.tensor import Tensor

from ..adapters.torch_internals import clip_grads_with_norm, total_norm
from ..patches.declarations import TORCH, patch
from . import deferral


def record(
    parameters: list[torch.Tensor],
    max_norm: Any,
    norm_type: Any = 2.0,
    error_if_nonfinite: bool = False,
    foreach: Any = None,  # noqa: ARG001 # as `clip_grad_norm_`
) -> Any:
    """Record that the gradients of a recorded backward pass are clipped.

    Returns:
        Their norm, which is computed later; None if they have to be clipped at once.
    """
    step, gradients = deferral.current, deferral.recorded_gradients(parameters)
    if step is None or error_if_nonfinite or gradients is None:
        return None
    total = step.norm(gradients, float(norm_type))
    return total if total is not None and step.clip(gradients, float(max_norm), total) else None


@patch(
    "torch.nn.utils.clip_grad:_get_total_norm",
    why="It has an operation for each parameter.",
    upstream=TORCH + "nn/utils/clip_grad.py",
)
def _norm_of_all(
    tensors: Any, norm_type: Any = 2.0, error_if_nonfinite: bool = False, foreach: Any = None
) -> Any:
    tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    if deferral.current is not None and not error_if_nonfinite:
        recorded = deferral.current.norm(tensors, float(norm_type))
        if recorded is not None:
            return recorded
    if error_if_nonfinite or not _can_be_compiled(tensors):
        return total_norm(tensors, norm_type, error_if_nonfinite, foreach)
    return Tensor(norm([tensor.jax() for tensor in tensors], float(norm_type)), tensors[0]._env)


@functools.partial(jax.jit, static_argnums=1)
def norm(values: Any, norm_type: Any) -> Any:
    """The norm of the norms of arrays."""
    norms = [jax.numpy.linalg.norm(value.ravel(), norm_type) for value in values]
    return jax.numpy.linalg.norm(jax.numpy.stack(norms), norm_type)


@patch(
    "torch.nn.utils.clip_grad:_clip_grads_with_norm_",
    why="It has two operations for each parameter.",
    upstream=TORCH + "nn/utils/clip_grad.py",
)
def _clip_all(parameters: Any, max_norm: Any, total_norm: Any, foreach: Any = None) -> Any:
    parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
    gradients = deferral.gradients_of(parameters)
    if deferral.current is not None and deferral.current.clip(gradients, float(max_norm), total_norm):
        return None
    if not _can_be_compiled([*gradients, total_norm]):
        return clip_grads_with_norm(parameters, max_norm, total_norm, foreach)
    values = clipped([gradient.jax() for gradient in gradients], float(max_norm), total_norm.jax())
    for gradient, value in zip(gradients, values, strict=False):
        gradient.apply_jax_(lambda _, value=value: value)
    return None


@jax.jit
def clipped(values: Any, most: Any, norm: Any) -> Any:
    """Arrays whose norm is made no larger than a number."""
    factor = jax.numpy.minimum(most / (norm + 1e-6), 1.0)
    return [(value * factor).astype(value.dtype) for value in values]


def _can_be_compiled(tensors: Any) -> bool:
    return bool(tensors) and all(
        isinstance(tensor, Tensor) and not isinstance(tensor.jax(), jax.core.Tracer) for tensor in tensors
    )
