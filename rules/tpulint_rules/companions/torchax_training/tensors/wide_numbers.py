"""Whole numbers of more than 32 bits, which JAX does not take beside floats: `scores * (-(2**32) + 1)` of a mask."""

from __future__ import annotations

import jax
import torch

_MOST = 2**31


def is_wide(value):
    """Whether a value is a number of Python that 32 bits do not hold."""
    return type(value) is int and not -_MOST <= value < _MOST


def as_floats(given):
    """What an operation is given, with such numbers as floats, which they become beside any; None if there are none."""
    leaves, tree = jax.tree.flatten(given)
    has_floats = any(map(_is_of_floats, leaves))
    if not has_floats or not any(map(is_wide, leaves)):
        return None
    return jax.tree.unflatten(tree, [float(leaf) if is_wide(leaf) else leaf for leaf in leaves])


def _is_of_floats(value):
    if isinstance(value, torch.Tensor):
        return value.is_floating_point()
    return isinstance(value, jax.Array) and jax.numpy.issubdtype(value.dtype, jax.numpy.floating)
