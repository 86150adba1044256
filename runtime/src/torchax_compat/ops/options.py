"""Options of operators that torchax does not support, or interprets differently.

Examples are `searchsorted`, `avg_pool2d` with `ceil_mode`, `embedding_bag`, `linalg.solve` and
`take_along_dim`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from torchax.tensor import Tensor

from ..adapters.torchax_internals import avg_pool, cummax, cummin, mul
from ..patches.declarations import TORCHAX, operator, patch
from .float16 import in_float32
from .missing import on_host_first
from .per_dimension import each

_aten = torch.ops.aten


def _searched(
    sequence: Any,
    values: Any,
    *,
    out_int32: bool = False,  # noqa: ARG001 # torch's; JAX's integers have 32 bits anyway
    right: bool = False,
    side: Any = None,
    sorter: Any = None,
) -> Any:
    values = jnp.asarray(values)
    if sorter is not None:
        sequence = jnp.take_along_axis(sequence, sorter, -1)
    side = side or ("right" if right else "left")
    if sequence.ndim == 1:
        return jnp.searchsorted(sequence, values, side=side)
    rows = sequence.reshape(-1, sequence.shape[-1]), values.reshape(-1, values.shape[-1])
    return jax.vmap(lambda row, of: jnp.searchsorted(row, of, side=side))(*rows).reshape(values.shape)


def _bucketed(values: Any, boundaries: Any, *, right: bool = False, **_options: Any) -> Any:
    return jnp.searchsorted(boundaries, jnp.asarray(values), side="right" if right else "left")


operator(
    _searched,
    _aten.searchsorted.Tensor,
    _aten.searchsorted.Scalar,
    why="torchax does not support sequences of several rows, `side` and `sorter`.",
)
operator(
    _bucketed,
    _aten.bucketize.Tensor,
    _aten.bucketize.Scalar,
    why="torchax does not support `right` as PyTorch defines it, and numbers.",
)


def _selected(x: Any, axis: Any, place: Any) -> Any:
    """The elements at an index, which may be an input of the compiled function."""
    if isinstance(place, int):
        return lax.index_in_dim(x, place, axis, keepdims=False)
    return lax.dynamic_index_in_dim(x, place, axis, keepdims=False)


operator(
    _selected, _aten.select.int, why="torchax raises for an index that is an input of a compiled function."
)


_average = avg_pool


@in_float32
def _averaged(
    x: Any,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    include_padding: bool = True,
    divisor: Any = None,
) -> Any:
    """Averages of windows, the last of which may extend beyond the padding."""
    if not ceil_mode:
        return _average(x, kernel, stride, padding, ceil_mode, include_padding, divisor)
    count = len(kernel)
    stride, padding = (each(setting, count) for setting in (stride or kernel, padding))
    edges, among = [(0, 0, 0)] * (x.ndim - count), 1
    for axis, (old, wide, step, pad) in enumerate(
        zip(x.shape[-count:], kernel, stride, padding, strict=False)
    ):
        new = -(-(old + 2 * pad - wide) // step) + 1
        new -= (new - 1) * step >= old + pad
        edges.append((pad, (new - 1) * step + wide - old - pad, 0))
        start = np.arange(new) * step - pad
        end = np.minimum(start + wide, old + pad)
        if not include_padding:
            start, end = np.maximum(start, 0), np.minimum(end, old)
        among = among * (end - start).reshape(-1, *[1] * (count - 1 - axis))
    before = [1] * (x.ndim - count)
    padded = lax.pad(x, x.dtype.type(0), edges)
    added = lax.reduce_window(
        padded, x.dtype.type(0), lax.add, (*before, *kernel), (*before, *stride), "valid"
    )
    return added / (among if divisor is None else divisor)


operator(
    _averaged,
    _aten.avg_pool1d,
    _aten.avg_pool2d,
    _aten.avg_pool3d,
    why="torchax averages the last window differently with `ceil_mode`.",
)


_SUM, _MEAN, _MOST = range(3)


def _bagged(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,  # noqa: ARG001 # torch's, for gradients only
    mode: Any = _SUM,
    sparse: bool = False,  # noqa: ARG001 # torch's; JAX's gradients are dense
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: Any = -1,
) -> Any:
    """Sums, means or maxima of the rows of each bag."""
    bags = len(offsets) - bool(include_last_offset)
    of_bag = jnp.searchsorted(offsets[:bags], jnp.arange(len(indices)), side="right") - 1
    counts = (indices != padding_idx).astype(weight.dtype)
    rows, sizes = weight[indices], jax.ops.segment_sum(counts, of_bag, bags)
    if mode == _MOST:
        rows = jnp.where(counts[:, None] > 0, rows, -jnp.inf)
        made = jax.ops.segment_max(rows, of_bag, bags)
        made = jnp.where(sizes[:, None] > 0, made, 0)
    else:
        share = counts if per_sample_weights is None else counts * per_sample_weights
        made = jax.ops.segment_sum(rows * share[:, None], of_bag, bags)
        made = made / jnp.maximum(sizes, 1)[:, None] if mode == _MEAN else made
    return made.astype(weight.dtype), of_bag, sizes.astype("int32"), offsets


operator(
    _bagged,
    _aten._embedding_bag,
    _aten._embedding_bag.default,
    _aten._embedding_bag_forward_only,
    _aten._embedding_bag_forward_only.default,
    why="torchax lacks options of `embedding_bag`, such as weights and padding.",
)


def _solved(a: Any, b: Any, *, left: bool = True) -> Any:
    """Solutions for several right-hand sides, or one; torchax assumes square matrices."""
    is_one = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    if is_one:
        return jnp.linalg.solve(a, b[..., None])[..., 0]
    if left:
        return jnp.linalg.solve(a, b)
    return jnp.linalg.solve(a.mT, b.mT).mT


def _solved_and_checked(a: Any, b: Any, *, left: bool = True, **_options: Any) -> Any:
    return _solved(a, b, left=left), jnp.zeros(a.shape[:-2], "int32")


_WHY = "torchax assumes that the right-hand side is a square matrix."
operator(_solved, torch.linalg.solve, why=_WHY)
operator(_solved_and_checked, torch.linalg.solve_ex, why=_WHY)


def _taken_along(x: Any, indices: Any, dim: Any = None) -> Any:
    """`take_along_dim`; torch requires indices of 64 bits."""
    if dim is None:
        return jnp.take_along_axis(x.reshape(-1), indices.reshape(-1), 0)
    shape = list(jnp.broadcast_shapes(_without(x.shape, dim), _without(indices.shape, dim)))
    wide = [list(shape), list(shape)]
    for sizes, one in zip(wide, (x, indices), strict=False):
        sizes[dim] = one.shape[dim]
    return jnp.take_along_axis(jnp.broadcast_to(x, wide[0]), jnp.broadcast_to(indices, wide[1]), dim)


def _without(shape: Any, dim: Any) -> Any:
    sizes = list(shape)
    sizes[dim] = 1
    return tuple(sizes)


def _gathered(x: Any, dim: int, indices: Any, *, sparse_grad: bool = False) -> Any:  # noqa: ARG001 # torch's
    """`gather`, whose gradient XLA fuses with what uses it: no array of zeros is scattered to."""
    if not (x.ndim and indices.ndim):
        return x.reshape(-1)[indices]
    sizes = [*indices.shape[:dim], x.shape[dim], *indices.shape[dim:][1:]]
    part = x[tuple(map(slice, sizes))]  # torch allows fewer indices than elements
    return jnp.take_along_axis(part, indices, dim, mode="clip")


operator(
    _taken_along,
    torch.take_along_dim,
    torch.Tensor.take_along_dim,
    why="PyTorch requires indices of 64 bits, which JAX has not by default.",
)
operator(
    _gathered,
    _aten.gather,
    why="The gradient of a cross entropy takes twice the memory of its logits.",
)
for _make in (torch.fft.fftfreq, torch.fft.rfftfreq):
    operator(on_host_first(_make), _make, why="torchax lacks options of `torch.fft`.", is_jax_function=False)


def _in_real_numbers(x: Any, axes: Any, normalization: Any, last_size: Any) -> Any:
    """The inverse FFT of real numbers; torchax assumes that the last of several sizes is even."""
    sizes = [*(x.shape[axis] for axis in axes[:-1]), last_size]
    return jnp.fft.irfftn(x, sizes, axes, ("forward", "ortho", "backward")[normalization])


def _cumulative(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, dim: function(x, dim % max(x.ndim, 1))


for _operation, _plain in ((_aten.cummax, cummax), (_aten.cummin, cummin)):
    operator(_cumulative(_plain), _operation, why="torchax raises for a negative dimension.")


operator(_in_real_numbers, _aten._fft_c2r, why="torchax assumes that the last of several sizes is even.")


_numpy = Tensor.numpy


@patch(
    "torchax.tensor:Tensor.numpy",
    why="torchax lacks the option `force`.",
    upstream=TORCHAX + "tensor.py",
)
def _as_numpy(tensor: torch.Tensor, *, force: bool = False) -> Any:  # noqa: ARG001 # all tensors are copied
    """`Tensor.numpy` with the option `force`."""
    return _numpy(tensor)


def _by_low_bits(function: Callable[..., Any]) -> Any:
    """An operation on the lower 32 bits of its operands, for an integer with more bits, as in hashes."""

    def computed(x: Any, other: Any) -> Any:
        is_narrow = jnp.issubdtype(x.dtype, jnp.integer) and x.dtype.itemsize < 8
        if type(other) is int and is_narrow and not -(2**31) <= other < 2**31:
            other = (other + 2**31) % 2**32 - 2**31
        return function(x, other)

    return computed


# In torch's decompositions, torchax takes bitwise operations for logical ones.
for _name in ("and", "or", "xor"):
    _function = _by_low_bits(getattr(jnp, f"bitwise_{_name}"))
    operator(
        _function,
        getattr(_aten, f"__{_name}__"),
        getattr(_aten, f"bitwise_{_name}"),
        why="torchax takes some for logical operations, and raises for integers of more than 32 bits.",
    )
operator(
    _by_low_bits(mul),
    _aten.mul.Tensor,
    _aten.mul.Scalar,
    why="JAX raises for a Python integer of more than 32 bits.",
)
