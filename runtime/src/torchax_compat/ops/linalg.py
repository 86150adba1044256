"""Linear algebra, `sum`, `mode`, `angle` and fake quantization that torchax lacks or computes differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch
from torchax.ops.mappings import t2j_dtype

from ..patches.declarations import operator

_aten = torch.ops.aten


def _implements(*operations: Any, why: str) -> Any:
    """Decorator that declares a function of JAX arrays for operators, and for all overloads of these."""

    def declare(function: Callable[..., Any]) -> Any:
        packets = [one for one in operations if hasattr(one, "overloads")]
        overloads = (getattr(one, name) for one in packets for name in one.overloads())
        operator(function, *operations, *overloads, why=why)
        return function

    return declare


# determinants


@_implements(
    torch.det, torch.Tensor.det, torch.linalg.det, _aten.linalg_det, why="torchax lacks determinants."
)
def _determinant(x: Any) -> Any:
    return jnp.linalg.det(x)


@_implements(torch.logdet, torch.Tensor.logdet, _aten.logdet, why="torchax lacks `logdet`.")
def _logarithm_of_determinant(x: Any) -> Any:
    sign, logarithm = jnp.linalg.slogdet(x)
    return jnp.where(sign < 0, jnp.nan, logarithm)


@_implements(torch.slogdet, torch.Tensor.slogdet, torch.linalg.slogdet, why="torchax lacks `slogdet`.")
def _determinant_by_logarithm(x: Any) -> Any:
    return torch.return_types.slogdet(tuple(jnp.linalg.slogdet(x)))


# angles of complex numbers


@_implements(_aten.angle, why="JAX's angle of NaN, and of real numbers, differs from PyTorch's.")
def _angle(x: Any) -> Any:
    if jnp.iscomplexobj(x):
        return jnp.angle(x)
    x = x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype("float32")
    return jnp.where(jnp.isnan(x), x, jnp.where(x < 0, jnp.pi, 0)).astype(x.dtype)


# sums with another dtype than that of the input


@_implements(_aten.sum, why="torchax ignores the argument `dtype`, and sums integers in 32 bits.")
def _sum(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if dtype is not None:
        x = x.astype(t2j_dtype(dtype))
    elif not jnp.issubdtype(x.dtype, jnp.inexact):
        x = x.astype(t2j_dtype(torch.int64))
    axis = None if dim is None or dim == [] or dim == () else dim
    return jnp.sum(x, axis=tuple(axis) if isinstance(axis, (list, tuple)) else axis, keepdims=keepdim)


# the most frequent value: the smallest of equally frequent ones, with its last index


@_implements(_aten.mode, why="torchax lacks `mode`.")
def _most(x: Any, dim: Any = -1, keepdim: bool = False) -> Any:
    if not x.ndim:
        return x, jnp.zeros((), "int32")
    x = jnp.moveaxis(x, dim, -1)
    ordered = jnp.sort(x, axis=-1)
    many = jnp.sum(ordered[..., :, None] == ordered[..., None, :], axis=-1)
    value = jnp.take_along_axis(ordered, jnp.argmax(many, axis=-1, keepdims=True), -1)
    size = x.shape[-1]
    place = size - 1 - jnp.argmax(jnp.flip(x == value, -1), axis=-1, keepdims=True)
    if keepdim:
        return jnp.moveaxis(value, -1, dim), jnp.moveaxis(place, -1, dim)
    return value[..., 0], place[..., 0]


# fake quantization: rounding to integers within bounds


def _rounded(x: Any, scale: Any, zero: Any, least: Any, most: Any) -> Any:
    """Rounded values within bounds; the gradient passes where a value is within them."""
    whole = jax.lax.stop_gradient(jnp.round(x / scale) + zero)
    inside = (whole >= least) & (whole <= most)
    made = (jnp.clip(whole, least, most) - zero) * scale
    kept = jnp.where(inside, x, jax.lax.stop_gradient(x))
    return (kept + jax.lax.stop_gradient(made - kept)).astype(x.dtype)


@_implements(torch.fake_quantize_per_tensor_affine, why="torchax lacks fake quantization.")
def _rounded_alike(x: Any, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any) -> Any:
    return _rounded(x, scale, zero_point, quant_min, quant_max)


@_implements(torch.fake_quantize_per_channel_affine, why="torchax lacks fake quantization.")
def _rounded_by_channel(
    x: Any, scale: Any, zero_point: Any, axis: Any, quant_min: Any, quant_max: Any
) -> Any:
    shape = [1] * x.ndim
    shape[axis] = -1
    return _rounded(x, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max)
