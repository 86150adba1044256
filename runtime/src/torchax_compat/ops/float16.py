"""Operators that PyTorch computes in float32 for float16 tensors, whose squares and sums overflow in float16.

torchax computes them in float16: for values above 256, normalizations give zeros, and norms infinity.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch
from torchax.ops import jaten, jtorch, ops_registry  # noqa: F401 # which registers functions

from ..patches.declarations import operator

_aten = torch.ops.aten


def in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, computed in float32 if the first argument is float16; the first result is float16."""

    @functools.wraps(function)
    def run(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_float16(x):
            return function(x, *args, **kwargs)
        widened = jax.tree.map(_widened, (args, kwargs))
        result = function(_widened(x), *widened[0], **widened[1])
        if isinstance(result, tuple):  # PyTorch keeps the mean and the deviation in float32
            return (result[0].astype(jnp.float16), *result[1:])
        has_dtype = any(isinstance(one, torch.dtype) for one in (*args, *kwargs.values()))
        return result if has_dtype else result.astype(jnp.float16)

    return run


def _is_float16(value: Any) -> bool:
    return isinstance(value, jax.Array) and value.dtype == jnp.float16


def _widened(value: Any) -> Any:
    return value.astype(jnp.float32) if _is_float16(value) else value


for _operation in (_aten.native_layer_norm, _aten.native_group_norm):
    operator(
        in_float32(ops_registry.all_aten_ops[_operation].func),
        _operation,
        why="torchax squares and adds float16 values in float16, where they overflow.",
    )
