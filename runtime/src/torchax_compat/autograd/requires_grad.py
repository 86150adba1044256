"""`t.requires_grad` in a decorated function: whether JAX differentiates the values that `t` depends on.

The autograd graph has one node for the whole function, and no information about the tensors within it.
JAX passes to custom derivatives whether their input is differentiated, so an identity function with one is
used.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import torch

ASKS = torch.Tensor.requires_grad.__get__

_is_known, _is_differentiated = True, False


class UnknownDependencyError(Exception):
    """It is not known what JAX differentiates, since a part of a function is compiled separately."""


@contextlib.contextmanager
def unknown() -> Iterator[Any]:
    """Context in which `requires_grad` of a traced tensor is unknown."""
    global _is_known
    before, _is_known = _is_known, False
    try:
        yield
    finally:
        _is_known = before


def is_differentiated(value: Any) -> bool:
    """Whether JAX differentiates the values that a traced array depends on."""
    global _is_differentiated
    if not jax.numpy.issubdtype(value.dtype, jax.numpy.inexact):
        return False
    if not _is_known:
        raise UnknownDependencyError
    _is_differentiated = False
    _noted(value)
    return _is_differentiated


@jax.custom_vjp
def _noted(value: Any) -> Any:
    return value


def _forth(value: Any) -> Any:
    global _is_differentiated
    _is_differentiated = value.perturbed
    return value.value, None


def _back(_: Any, gradient: Any) -> Any:
    return (gradient,)


_noted.defvjp(_forth, _back, symbolic_zeros=True)
