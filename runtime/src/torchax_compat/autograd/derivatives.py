"""Operators for which JAX's gradient differs from PyTorch's: NaN, or another subgradient.

torchax computes the same values as PyTorch.
But where a function has a corner, is zero or saturates, JAX's gradient is NaN, or another one of the possible
gradients:

- `norm` and `std` of zeros, `elu` and `softplus` from 89 on, and `binary_cross_entropy` of exactly 0 or 1
  have the gradient NaN.
- `abs` of 0 has the gradient 1.
- `max` over a dimension spreads its gradient over all largest elements.

torchax's implementations for floats are replaced; those for integers and complex numbers stay.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch
from torchax.ops import jaten, jtorch, ops_registry  # noqa: F401 # which registers functions

from ..adapters.torchax_internals import mean, var
from ..ops.float16 import in_float32
from ..patches.declarations import operator

_aten = torch.ops.aten
_PLAIN = {**ops_registry.all_aten_ops, **ops_registry.all_torch_functions}
_LEAST = -100.0  # PyTorch's value for the logarithm of 0 in `binary_cross_entropy`


def _replaces(*operations: Any, why: str) -> Any:
    """Decorator that declares an implementation for floats."""

    def replacing(function: Callable[..., Any]) -> Any:
        for operation in operations:
            plain = _PLAIN.get(operation)
            operator(function if plain is None else _of_floats(function, plain.func), operation, why=why)
        return function

    return replacing


def _of_floats(function: Callable[..., Any], plain: Any) -> Any:
    @functools.wraps(plain)
    def chosen(x: Any, *args: Any, **kwargs: Any) -> Any:
        is_float = isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.floating)
        return (function if is_float else plain)(x, *args, **kwargs)

    return chosen


@_replaces(_aten.abs, why="JAX's gradient at 0 is 1, PyTorch's is 0.")
def _abs(x: Any) -> Any:
    return x * jax.lax.stop_gradient(jnp.sign(x))


@_replaces(
    _aten.clamp,
    _aten.clamp.default,
    _aten.clamp.Tensor,
    why="JAX halves the gradient at the bounds, PyTorch does not.",
)
def _clamp(x: Any, min: Any = None, max: Any = None) -> Any:  # noqa: A002 # torch's names
    if min is not None:
        x = jnp.where(x < min, min, x)
    return x if max is None else jnp.where(x > max, max, x)


@_replaces(_aten.clamp_min, why="JAX halves the gradient at the bound, PyTorch does not.")
def _clamp_min(x: Any, min: Any) -> Any:  # noqa: A002 # torch's name
    return _clamp(x, min)


@_replaces(_aten.clamp_max, why="JAX halves the gradient at the bound, PyTorch does not.")
def _clamp_max(x: Any, max: Any) -> Any:  # noqa: A002 # torch's name
    return _clamp(x, max=max)


@_replaces(_aten.hardtanh, why="JAX's gradient at the bounds differs from PyTorch's, which is 0.")
def _hardtanh(x: Any, min_val: Any = -1, max_val: Any = 1, **_options: Any) -> Any:
    return jnp.where(x <= min_val, min_val, jnp.where(x >= max_val, max_val, x))


@_replaces(_aten.hardsigmoid, why="JAX's gradient at the bounds differs from PyTorch's, which is 0.")
def _hardsigmoid(x: Any) -> Any:
    return jnp.where(x <= -3, 0, jnp.where(x >= 3, 1, x / 6 + 0.5))


@_replaces(_aten.hardswish, why="JAX's gradient at -3 and 3 differs from PyTorch's.")
def _hardswish(x: Any) -> Any:
    return jnp.where(x <= -3, 0, jnp.where(x >= 3, x, x * (x / 6 + 0.5)))


@_replaces(_aten.leaky_relu, why="JAX's gradient at 0 is 1, PyTorch's is the slope.")
def _leaky_relu(x: Any, negative_slope: Any = 0.01) -> Any:
    return jnp.where(x > 0, x, x * negative_slope)


@_replaces(_aten.elu, why="JAX's gradient is NaN for inputs from 89 on.")
def _elu(x: Any, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Any:
    below = jnp.where(x > 0, 0, x)
    return jnp.where(x > 0, x * scale, alpha * scale * jnp.expm1(below * input_scale))


@_replaces(_aten.celu, why="JAX's gradient is NaN for large inputs.")
def _celu(x: Any, alpha: Any = 1.0) -> Any:
    return _elu(x, alpha, 1.0, 1 / alpha)


@_replaces(_aten.softplus, why="JAX's gradient is NaN for inputs from 89 on.")
@in_float32
def _softplus(x: Any, beta: Any = 1.0, threshold: Any = 20.0) -> Any:
    is_linear = x * beta > threshold
    return jnp.where(is_linear, x, jnp.log1p(jnp.exp(jnp.where(is_linear, 0, x * beta))) / beta)


@_replaces(_aten.mish, why="JAX's gradient is NaN for inputs from 89 on.")
@in_float32
def _mish(x: Any) -> Any:
    return x * jnp.tanh(_softplus(x))


@_replaces(_aten.i0, why="JAX's gradient at 0 is 1, PyTorch's is 0.")
def _i0(x: Any) -> Any:
    return jnp.exp(_abs(x)) * jax.scipy.special.i0e(x)


@_replaces(_aten.max.dim, why="JAX spreads the gradient over all largest elements; PyTorch takes one.")
def _max(x: Any, dim: Any, keepdim: bool = False) -> Any:
    return _picked(x, jnp.argmax, dim, keepdim)


@_replaces(_aten.min.dim, why="JAX spreads the gradient over all smallest elements; PyTorch takes one.")
def _min(x: Any, dim: Any, keepdim: bool = False) -> Any:
    return _picked(x, jnp.argmin, dim, keepdim)


def _picked(x: Any, search: Any, dim: Any, keepdim: Any) -> Any:
    """The extreme values and their indices; each value is that of a single element."""
    if x.ndim == 0:
        return x, jnp.zeros((), jnp.int64)
    at = search(x, axis=dim, keepdims=True)
    is_there = jax.lax.broadcasted_iota(at.dtype, x.shape, dim % x.ndim) == at
    values = jnp.sum(jnp.where(is_there, x, 0), axis=dim, keepdims=keepdim).astype(x.dtype)
    return values, (at if keepdim else jnp.squeeze(at, dim)).astype(jnp.int64)


@_replaces(_aten.linalg_vector_norm, why="JAX's gradient of the norm of zeros is NaN, PyTorch's is 0.")
@in_float32
def _vector_norm(
    x: Any,
    ord: Any = 2,  # noqa: A002 # torch's name
    dim: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
) -> Any:
    plain = _PLAIN[_aten.linalg_vector_norm].func
    if ord == 0 or x.ndim == 0 or x.size == 0:
        return plain(x, ord, dim, keepdim, dtype)
    axes = None if dim is None else tuple(dim) if isinstance(dim, (list, tuple)) else dim
    if ord == 1:
        return jnp.sum(_abs(x), axis=axes, keepdims=keepdim)
    is_zero = jnp.all(x == 0, axis=axes, keepdims=True)
    norm = plain(jnp.where(is_zero, 1, x), ord, dim, keepdim, dtype)
    return jnp.where(is_zero.reshape(norm.shape), 0, norm)


@_replaces(
    _aten.std.correction, why="JAX's gradient of the deviation of equal elements is NaN, PyTorch's is 0."
)
@in_float32
def _std(x: Any, dim: Any = None, *, correction: Any = 1, keepdim: bool = False) -> Any:
    correction = 1 if correction is None else correction
    variance = var(x, dim, correction=correction, keepdim=keepdim)
    return jnp.where(variance == 0, 0, jnp.sqrt(jnp.where(variance == 0, 1, variance)))


@_replaces(
    _aten.std_mean.correction, why="JAX's gradient of the deviation of equal elements is NaN, PyTorch's is 0."
)
def _std_mean(x: Any, dim: Any = None, *, correction: Any = 1, keepdim: bool = False) -> Any:
    return _std(x, dim, correction=correction, keepdim=keepdim), mean(x, dim, keepdim)


@_replaces(
    torch.cdist,
    _aten.cdist,
    _aten._cdist_forward,
    why="JAX's gradient of a distance of 0 is NaN, PyTorch's is 0.",
)
def _cdist(
    x1: Any,
    x2: Any,
    p: Any = 2.0,
    compute_mode: Any = None,  # noqa: ARG001 # torch's, which chooses between equal ways
) -> Any:
    if p == 2.0:
        return _euclidean(x1, x2)
    return _vector_norm(x1[..., :, None, :] - x2[..., None, :, :], p, -1)


@_replaces(_aten._pdist_forward, why="JAX's gradient of a distance of 0 is NaN, PyTorch's is 0.")
def _pdist(x: Any, p: Any = 2.0) -> Any:
    first, second = jnp.triu_indices(x.shape[0], k=1)
    return _vector_norm(x[first] - x[second], p, -1)


@_replaces(_aten.dist, why="JAX's gradient of a distance of 0 is NaN, PyTorch's is 0.")
def _dist(x1: Any, x2: Any, p: Any = 2.0) -> Any:
    return _vector_norm(x1 - x2, p)


@jax.custom_jvp
def _euclidean(x1: Any, x2: Any) -> Any:
    return _PLAIN[_aten.cdist].func(x1, x2, 2.0).astype(x1.dtype)


@_euclidean.defjvp
def _euclidean_jvp(given: Any, changes: Any) -> Any:
    (x1, x2), (d1, d2) = given, changes
    distance = _euclidean(x1, x2)
    change = jnp.sum(x1 * d1, -1)[..., :, None] + jnp.sum(x2 * d2, -1)[..., None, :]
    change -= d1 @ jnp.swapaxes(x2, -1, -2) + x1 @ jnp.swapaxes(d2, -1, -2)
    is_zero = distance == 0
    return distance, jnp.where(is_zero, 0, change / jnp.where(is_zero, 1, distance))


@_replaces(_aten.binary_cross_entropy, why="JAX's gradient for a probability of exactly 0 or 1 is NaN.")
def _binary_cross_entropy(x: Any, target: Any, weight: Any = None, reduction: Any = 1) -> Any:
    losses = _cross_entropies(x, target)
    losses = losses if weight is None else losses * weight
    return jnp.mean(losses) if reduction == 1 else jnp.sum(losses) if reduction else losses


@jax.custom_jvp
def _cross_entropies(x: Any, target: Any) -> Any:
    true, false = jnp.maximum(jnp.log(x), _LEAST), jnp.maximum(jnp.log1p(-x), _LEAST)
    return -(target * true + (1 - target) * false)


@_cross_entropies.defjvp
def _cross_entropies_jvp(given: Any, changes: Any) -> Any:
    (x, target), (dx, dtarget) = given, changes
    true, false = jnp.maximum(jnp.log(x), _LEAST), jnp.maximum(jnp.log1p(-x), _LEAST)
    change = (x - target) / jnp.maximum((1 - x) * x, 1e-12) * dx + (false - true) * dtarget
    return _cross_entropies(x, target), change
