"""Interpolation and adaptive average pooling, whose gradients torchax scatters element by element.

Each dimension is multiplied by a matrix with the weights of old positions for each new position.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from torchax.ops import jaten, jtorch

from ..patches.declarations import operator
from ..tensor import arrays
from .per_dimension import each

#: In longer dimensions, the matrix would take longer than indexing the two elements at each position.
_LONGEST = 1024

_average_pool = jaten.adaptive_avg_pool2or3d
_interpolate = jtorch.functional_interpolate
_NEAREST = "nearest", "nearest-exact"


def _interpolated(
    x: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: Any = "nearest",
    align_corners: Any = None,
    recompute_scale_factor: Any = None,
    antialias: bool = False,
) -> Any:
    linear = {3: "linear", 4: "bilinear", 5: "trilinear"}.get(x.ndim)
    smooth = antialias and mode in _FILTERS and x.ndim == 4
    if not (smooth or (not antialias and mode in {*_NEAREST, linear})) or not jnp.issubdtype(
        x.dtype, jnp.floating
    ):
        return _interpolate(x, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    count = x.ndim - 2
    sizes, scales = each(size, count), each(scale_factor, count)
    if size is None:
        sizes = [int(old * scale) for old, scale in zip(x.shape[2:], scales, strict=True)]
    if recompute_scale_factor:
        scales = [None] * count
    made = arrays.widened(x)
    for axis, (new, scale) in enumerate(zip(sizes, scales, strict=True), 2):
        step = np.float32(x.shape[axis] / new if scale is None else 1 / scale)
        if smooth:
            matrix = _filtered(x.shape[axis], new, step, mode, bool(align_corners))
            made = _multiplied(made, axis, matrix.astype(made.dtype))
        elif mode in _NEAREST:
            # For images, torch ignores the scale if the size stays the same or doubles.
            is_plain = mode == "nearest" and x.ndim == 4 and new in (x.shape[axis], 2 * x.shape[axis])
            step = np.float32(x.shape[axis] / new) if is_plain else step
            middle = np.float32(0 if mode == "nearest" else 0.5)
            places = ((np.arange(new, dtype=np.float32) + middle) * step).astype(int)
            made = _taken(made, axis, np.minimum(places, x.shape[axis] - 1))
        else:
            made = _mixed(made, axis, new, step, align_corners)
    return made.astype(x.dtype)


def _taken(x: Any, axis: Any, places: Any) -> Any:
    """Elements along a dimension; regular repetitions and strides need no index."""
    old, new = x.shape[axis], len(places)
    if new % old == 0 and (places == np.arange(new) // (new // old)).all():
        return _repeated(x, axis, new // old)
    if old % new == 0 and (places == places[0] + np.arange(new) * (old // new)).all():
        return lax.slice_in_dim(x, places[0], None, old // new, axis)
    return jnp.take(x, places, axis)


@functools.partial(jax.jit, static_argnums=(1, 2), inline=True)
def _repeated(x: Any, axis: Any, times: Any) -> Any:
    return jnp.repeat(x, times, axis)


def _mixed(x: Any, axis: Any, new: Any, step: Any, align_corners: Any) -> Any:
    """Interpolation between the two elements that are nearest to each position."""
    old = x.shape[axis]
    if old <= _LONGEST:
        return _multiplied(x, axis, _matrix(old, new, step, bool(align_corners)).astype(x.dtype))
    below, above, share = _between(old, new, step, align_corners)
    share = share.astype(x.dtype).reshape(-1, *[1] * (x.ndim - 1 - axis))
    return jnp.take(x, below, axis) * (1 - share) + jnp.take(x, above, axis) * share


@functools.lru_cache(64)
def _matrix(old: Any, new: Any, step: Any, align_corners: Any) -> Any:
    below, above, share = _between(old, new, step, align_corners)
    matrix = np.zeros((new, old), np.float32)
    np.add.at(matrix, (np.arange(new), below), 1 - share)
    np.add.at(matrix, (np.arange(new), above), share)
    return matrix


def _cubic(x: Any) -> Any:
    near, far = (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x < 1, near, np.where(x < 2, far, 0))


#: The weight of an element by its distance, and the distance from which it is zero.
_FILTERS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "bilinear": (lambda x: np.maximum(1 - x, 0), 1),
    "bicubic": (_cubic, 2),
}


@functools.lru_cache(64)
def _filtered(old: Any, new: Any, step: Any, mode: Any, align_corners: Any) -> Any:
    """The matrix of a dimension for antialiasing; torchax's function for that raises."""
    weigh, reach = _FILTERS[mode]
    if align_corners:
        step = np.float32((old - 1) / (new - 1) if new > 1 else 0)
    wide = max(step, np.float32(1))
    middle = step * (np.arange(new, dtype=np.float32) + np.float32(0.5))[:, None]
    place = np.arange(old)
    first = np.maximum((middle - reach * wide + np.float32(0.5)).astype(int), 0)
    last = np.minimum((middle + reach * wide + np.float32(0.5)).astype(int), old)
    weights = weigh(np.abs((place - middle + np.float32(0.5)) / wide)) * ((place >= first) & (place < last))
    return (weights / weights.sum(1, keepdims=True)).astype(np.float32)


def _between(old: Any, new: Any, step: Any, align_corners: Any) -> Any:
    """For each position, the elements below and above it, and the weight of the one above."""
    places = np.arange(new, dtype=np.float32)
    if align_corners:
        places = places * np.float32((old - 1) / (new - 1) if new > 1 else 0)
    else:
        places = np.maximum((places + np.float32(0.5)) * step - np.float32(0.5), np.float32(0))
    below = np.minimum(places.astype(int), old - 1)
    return below, np.minimum(below + 1, old - 1), np.minimum(places - below, 1).astype(np.float32)


def _averaged(x: Any, output_size: Any) -> Any:
    first = x.ndim - len(output_size)
    sizes = [old if new is None else new for old, new in zip(x.shape[first:], output_size, strict=True)]
    if all(old % new == 0 for old, new in zip(x.shape[first:], sizes, strict=True)):
        return _average_pool(x, sizes)
    made = arrays.widened(x)
    for axis, new in enumerate(sizes, first):
        old, places = x.shape[axis], np.arange(new)[:, None]
        start, end = places * old // new, -(-(places + 1) * old // new)
        inside = (np.arange(old) >= start) & (np.arange(old) < end)
        made = _multiplied(made, axis, (inside / (end - start)).astype(made.dtype))
    return made.astype(x.dtype)


@functools.partial(jax.jit, static_argnums=1, inline=True)
def _multiplied(x: Any, axis: Any, matrix: Any) -> Any:
    """A dimension multiplied by a matrix of shape (new, old)."""
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    flat = x.reshape(-1, x.shape[axis], int(np.prod(after)))
    made = jnp.einsum("no,bor->bnr", matrix, flat, precision="highest")
    return made.reshape(*before, len(matrix), *after)


_WHY = "torchax scatters the gradients element by element, which is slow."
operator(_interpolated, torch.nn.functional.interpolate, why=_WHY)
operator(_averaged, torch.ops.aten._adaptive_avg_pool2d, torch.ops.aten._adaptive_avg_pool3d, why=_WHY)
