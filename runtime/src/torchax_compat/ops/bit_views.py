"""Views of the same memory as other numbers: `view(dtype)`, `view_as_real`, `view_as_complex` and `conj`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch
from torchax.ops import mappings

from ..patches.declarations import operator

_aten = torch.ops.aten


def as_type(x: Any, dtype: Any) -> Any:
    """`x.view(dtype)`: the same bits; the last dimension changes with the size of an element."""
    wanted = mappings.t2j_dtype(dtype)
    if jax.dtypes.canonicalize_dtype(wanted) != wanted:
        raise RuntimeError(f"x.view({dtype}) needs 64 bits: set jax_enable_x64")
    return _as(x, jnp.dtype(wanted))


def _as(x: Any, wanted: Any) -> Any:
    if x.dtype == wanted:
        return x
    if jnp.iscomplexobj(x):
        return _as(as_real(x).reshape(*x.shape[:-1], -1), wanted)
    if jnp.issubdtype(wanted, jnp.complexfloating):
        parts = _as(x, jnp.finfo(wanted).dtype)
        return as_complex(parts.reshape(*parts.shape[:-1], -1, 2))
    is_truth = wanted.kind == "b"
    if x.dtype == bool or is_truth:
        x = x.astype("uint8") if x.dtype == bool else x
        return _as(x, jnp.dtype("uint8")) != 0 if is_truth else _as(x, wanted)
    if wanted.itemsize > x.dtype.itemsize:
        x = x.reshape(*x.shape[:-1], -1, wanted.itemsize // x.dtype.itemsize)
    made = jax.lax.bitcast_convert_type(x, wanted)
    return made.reshape(*x.shape[:-1], -1) if wanted.itemsize < x.dtype.itemsize else made


def as_real(x: Any) -> Any:
    """`torch.view_as_real(x)`."""
    return jnp.stack([x.real, x.imag], -1)


def as_complex(x: Any) -> Any:
    """`torch.view_as_complex(x)`."""
    return jax.lax.complex(x[..., 0], x[..., 1])


#: For each operation, the elements of a view, and the elements of its source again.
BOTH_WAYS: dict[Any, tuple[Callable[..., Any], Callable[..., Any]]] = {
    _aten.view_as_real.default: (as_real, lambda made, _: as_complex(made)),
    _aten.view_as_complex.default: (as_complex, lambda made, _: as_real(made)),
    _aten._conj.default: (jnp.conj, lambda made, _: jnp.conj(made)),
    _aten._neg_view.default: (jnp.negative, lambda made, _: -made),
    _aten.view.dtype: (as_type, lambda made, source: _as(made, source.dtype)),
}

operator(as_type, _aten.view.dtype, why="torchax lacks `x.view(dtype)`.")
operator(
    jnp.negative,
    _aten._neg_view,
    _aten._neg_view.default,
    why="torchax lacks the negated view, of which `x.conj().imag` consists.",
)
