"""`torch.nn.utils.clip_grad_norm_`, compiled: it has three operations for each parameter."""

from __future__ import annotations

import functools

import jax
import torch
from torchax.tensor import Tensor

from ..adapters.torch_internals import clip_grads_with_norm, total_norm
from ..patches.declarations import TORCH, patch


@patch(
    "torch.nn.utils.clip_grad:_get_total_norm",
    why="It has an operation for each parameter.",
    upstream=TORCH + "nn/utils/clip_grad.py",
)
def _norm_of_all(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    if error_if_nonfinite or not _can_be_compiled(tensors):
        return total_norm(tensors, norm_type, error_if_nonfinite, foreach)
    return Tensor(_norm([tensor.jax() for tensor in tensors], float(norm_type)), tensors[0]._env)


@functools.partial(jax.jit, static_argnums=1)
def _norm(values, norm_type):
    norms = [jax.numpy.linalg.norm(value.ravel(), norm_type) for value in values]
    return jax.numpy.linalg.norm(jax.numpy.stack(norms), norm_type)


@patch(
    "torch.nn.utils.clip_grad:_clip_grads_with_norm_",
    why="It has two operations for each parameter.",
    upstream=TORCH + "nn/utils/clip_grad.py",
)
def _clip_all(parameters, max_norm, total_norm, foreach=None):
    parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not _can_be_compiled([*gradients, total_norm]):
        return clip_grads_with_norm(parameters, max_norm, total_norm, foreach)
    values = _clipped([gradient.jax() for gradient in gradients], float(max_norm), total_norm.jax())
    for gradient, value in zip(gradients, values):
        gradient.apply_jax_(lambda _, value=value: value)


@jax.jit
def _clipped(values, most, norm):
    factor = jax.numpy.minimum(most / (norm + 1e-6), 1.0)
    return [(value * factor).astype(value.dtype) for value in values]


def _can_be_compiled(tensors):
    return bool(tensors) and all(
        isinstance(tensor, Tensor) and not isinstance(tensor.jax(), jax.core.Tracer) for tensor in tensors
    )
