"""`t.requires_grad` within a marked function: whether JAX differentiates what `t` is computed from.

Torch's graph has one node for the whole function, and knows nothing of the tensors within it.
Custom derivatives of JAX are told what is differentiated, and so one that computes nothing tells.
"""

from __future__ import annotations

import contextlib

import jax
import torch

ASKS = torch.Tensor.requires_grad.__get__

_is_known, _is_differentiated = True, False


class Unknown(Exception):
    """What JAX differentiates is not known where a part of a function is compiled by itself."""


@contextlib.contextmanager
def unknown():
    """What is asked within cannot be told."""
    global _is_known
    before, _is_known = _is_known, False
    try:
        yield
    finally:
        _is_known = before


def is_wanted(value):
    """Whether JAX differentiates what a traced array is computed from."""
    global _is_differentiated
    if not jax.numpy.issubdtype(value.dtype, jax.numpy.inexact):
        return False
    if not _is_known:
        raise Unknown
    _is_differentiated = False
    _told(value)
    return _is_differentiated


@jax.custom_vjp
def _told(value):
    return value


def _forth(value):
    global _is_differentiated
    _is_differentiated = value.perturbed
    return value.value, None


def _back(_, gradient):
    return (gradient,)


_told.defvjp(_forth, _back, symbolic_zeros=True)
