"""`F.grid_sample`, and `floor`, `ceil` and `trunc`, whose input XLA may compute twice on a CPU.

A sampling position is rounded down to the element before it, and the remainder is the weight of the next
element.
If XLA computes the positions once for elements and once for weights, with different rounding errors, a
position exactly on an element gets the element before it with the full weight: an image that is shifted by
whole pixels is shifted by one more in parts.
These implementations use the same positions for both, which XLA may not compute again.
The same holds for programs that sample by `torch.floor` or `.long()`.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import torch

from ..patches.declarations import operator
from ..tensor import arrays

_LINEAR, _NEAREST = 0, 1
_ZEROS, _BORDER = 0, 1
#: The coefficient of torch's cubic weights.
_STEEPNESS = -0.75


def _sampled(
    x: Any, grid: Any, mode: Any = _LINEAR, padding: Any = _ZEROS, align_corners: bool = False
) -> Any:
    """The values at the positions of a grid, from -1 to 1, with the last dimension first."""
    sizes = x.shape[2:]
    places = [_unnormalized(grid[..., -1 - d], size, align_corners) for d, size in enumerate(sizes)]
    bounds = [(size, padding, align_corners) for size in sizes]
    if mode in (_LINEAR, _NEAREST):
        places = [_within(place, *bound) for place, bound in zip(places, bounds, strict=True)]
    places = arrays.computed_once(places)
    if mode == _NEAREST:
        return _elements(x, [jnp.round(place) for place in places])
    below = [jnp.floor(place) for place in places]
    rest = [place - low for place, low in zip(places, below, strict=True)]
    if mode == _LINEAR:
        taps = [[(low, 1 - r), (low + 1, r)] for low, r in zip(below, rest, strict=True)]
    else:
        taps = [
            [(_within(low + k - 1, *bound), weight) for k, weight in enumerate(_cubic(r))]
            for low, r, bound in zip(below, rest, bounds, strict=True)
        ]
    made: Any = 0
    for corner in itertools.product(*taps):
        at, weights = zip(*corner, strict=True)
        made += _elements(x, at) * math.prod(weights)[:, None]
    return made.astype(x.dtype)


def _unnormalized(along: Any, size: Any, align_corners: Any) -> Any:
    """Positions along a dimension, in elements."""
    return along * ((size - 1) / 2 if align_corners else size / 2) + (size - 1) / 2


def _within(place: Any, size: Any, padding: Any, align_corners: Any) -> Any:
    """Positions mapped into the image, except for zero padding."""
    if padding == _ZEROS:
        return place
    if padding != _BORDER:
        low, high = (0, size - 1) if align_corners else (-0.5, size - 0.5)
        place = _reflected(place, low, high - low)
    # There is no gradient at the borders and beyond; NaN becomes the first position.
    place = jnp.where(place > 0, place, 0.0)
    return jnp.where(place < size - 1, place, float(size - 1))


def _reflected(place: Any, low: Any, span: Any) -> Any:
    if not span:
        return jnp.zeros_like(place)
    away = jnp.abs(place - low)
    rest, count = jnp.fmod(away, span), jnp.floor(away / span)
    return jnp.where(count % 2 == 0, rest + low, span + low - rest)


def _cubic(rest: Any) -> Any:
    """The weights of the elements around a position, with the first two before it."""

    def far(t: Any) -> Any:
        return ((_STEEPNESS * t - 5 * _STEEPNESS) * t + 8 * _STEEPNESS) * t - 4 * _STEEPNESS

    def near(t: Any) -> Any:
        return ((_STEEPNESS + 2) * t - (_STEEPNESS + 3)) * t * t + 1

    return far(rest + 1), near(rest), near(1 - rest), far(2 - rest)


def _elements(x: Any, at: Any) -> Any:
    """The elements at integer positions, and zeros outside of the image."""
    flat: Any = 0
    is_inside: Any = True
    for place, size in zip(at, x.shape[2:], strict=False):
        is_inside &= (place >= 0) & (place < size)
        flat = flat * size + jnp.clip(place, 0, size - 1).astype(jnp.int32)
    elements = x.reshape(*x.shape[:2], -1)
    found = jax.vmap(lambda one, places: one[:, places])(elements, flat)
    return jnp.where(is_inside[:, None], found, 0)


_WHY = "XLA may compute sampling positions twice on a CPU, with different rounding errors."
for _name in ("floor", "ceil", "trunc"):
    operator(functools.partial(arrays.rounded, getattr(jnp, _name)), getattr(torch.ops.aten, _name), why=_WHY)
operator(_sampled, torch.ops.aten.grid_sampler_2d, torch.ops.aten.grid_sampler_3d, why=_WHY)
