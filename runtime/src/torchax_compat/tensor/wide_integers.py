"""Integers of more than 32 bits beside float tensors, as in `scores * (-(2**32) + 1)` for masks.

JAX does not accept them, so they become floats.
"""

from __future__ import annotations

from typing import Any

import jax
import torch

_MOST = 2**31


def is_wide(value: Any) -> bool:
    """Whether a value is a Python integer that 32 bits cannot hold."""
    return type(value) is int and not -_MOST <= value < _MOST


def as_floats(given: Any) -> Any:
    """Arguments with such integers as floats, as they become beside any float; None if there are none."""
    leaves, tree = jax.tree.flatten(given)
    has_floats = any(map(_is_of_floats, leaves))
    if not has_floats or not any(map(is_wide, leaves)):
        return None
    return jax.tree.unflatten(tree, [float(leaf) if is_wide(leaf) else leaf for leaf in leaves])


def _is_of_floats(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.is_floating_point()
    return isinstance(value, jax.Array) and jax.numpy.issubdtype(value.dtype, jax.numpy.floating)
