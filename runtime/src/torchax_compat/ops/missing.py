"""Operators that torchax lacks, such as `ctc_loss`, `fold`, adaptive max pooling, unpooling and windows.

These implementations in JAX can be compiled and differentiated.
Sorting has PyTorch's order of equal elements, and the pruning methods of `torch.nn.utils.prune` compute their
masks on the host.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torchax
from torch.nn.utils import prune
from torchax.ops.op_base import InplaceOp
from torchax.view import View

from ..adapters.torch_internals import DisableTorchFunction, disable_current_modes, no_dispatch
from ..adapters.torchax_internals import native_batch_norm
from ..patches.declarations import TORCH, operator, patch
from ..tensor import arrays
from .float16 import in_float32

_aten = torch.ops.aten
_KINDS = (torchax.tensor.Tensor, View)
_WINDOWS = ("bartlett", "blackman", "hamming", "hann", "kaiser")


def _implements(*operations: Any, why: str, is_jax_function: bool = True) -> Any:
    """Decorator that declares a function of JAX arrays, or of torch tensors, for operators."""

    def declare(function: Callable[..., Any]) -> Any:
        operator(function, *operations, why=why, is_jax_function=is_jax_function)
        return function

    return declare


@_implements(_aten.mT, _aten.mT.default, why="torchax lacks `mT`.")
def _transposed(x: Any) -> Any:
    return jnp.swapaxes(x, -1, -2)


operator(
    InplaceOp(_aten.ldexp),
    _aten.ldexp_,
    why="torchax lacks `ldexp_`.",
    is_jax_function=False,
    is_view_op=True,
)


@_implements(_aten.ldexp, _aten.ldexp.Tensor, why="torchax lacks `ldexp`.")
def _times_power_of_two(x: Any, power: Any) -> Any:
    return x * jnp.exp2(power)


@_implements(_aten.nextafter, _aten.nextafter.default, why="torchax lacks `nextafter`.")
def _next_after(x: Any, other: Any) -> Any:  # which JAX cannot differentiate
    return jnp.nextafter(jax.lax.stop_gradient(x), jax.lax.stop_gradient(other))


@_implements(
    _aten._is_any_true,
    _aten._is_any_true.default,
    why="torchax lacks it; `torch.autograd.set_detect_anomaly` looks for NaN with it.",
)
def _is_any_true(x: Any) -> Any:  # `torch.autograd.set_detect_anomaly` looks for NaN with it
    return jnp.any(x)


@_implements(_aten._int_mm, _aten._int_mm.default, why="torchax lacks products of integer matrices.")
def _whole_product(x: Any, y: Any) -> Any:
    return jnp.matmul(x, y, preferred_element_type="int32")


@_implements(_aten.cholesky, _aten.cholesky.default, why="torchax lacks `torch.cholesky`.")
def _cholesky(x: Any, upper: bool = False) -> Any:
    return jnp.linalg.cholesky(x, upper=upper)


@_implements(
    _aten.linalg_cholesky_ex,
    _aten.linalg_cholesky_ex.default,
    why="PyTorch's gradient is symmetric, torchax's is not.",
)
def _checked_cholesky(x: Any, *, upper: bool = False, check_errors: bool = False) -> Any:  # noqa: ARG001
    return _cholesky(x, upper), jnp.zeros(x.shape[:-2], "int32")


@_implements(
    _aten._is_all_true,
    _aten._is_all_true.default,
    why="torchax lacks it; distributions check their arguments with it.",
)
def _is_all_true(x: Any) -> Any:  # distributions check their arguments with it
    return jnp.all(x)


operator(
    InplaceOp(_aten.fill),
    _aten.fill_,
    why="torchax's `fill_` takes numbers only; the value may be a tensor.",
    is_jax_function=False,
    is_view_op=True,
)


# PyTorch's order of equal elements; XLA's sort on a CPU has the same with these keys


@_implements(
    torch.argsort,
    _aten.argsort,
    _aten.argsort.default,
    _aten.argsort.stable,
    why="The order of equal elements differs from PyTorch's.",
)
def _order(x: Any, dim: Any = -1, descending: bool = False, *, stable: Any = None) -> Any:
    if not x.ndim:
        return jnp.zeros((), "int32")
    x = jax.lax.stop_gradient(x)
    keys = _falling(x) if descending else (x,)
    places = jax.lax.broadcasted_iota("int32", x.shape, dim % x.ndim)
    given = (*keys, places)
    *_, order = jax.lax.sort(given, dimension=dim % x.ndim, is_stable=bool(stable), num_keys=len(keys))
    return order


def _falling(x: Any) -> Any:
    """Keys that ascend where elements descend; NaN is first."""
    return (~jnp.isnan(x), -x) if jnp.issubdtype(x.dtype, jnp.floating) else (~x,)


@_implements(
    _aten.sort,
    _aten.sort.default,
    _aten.sort.stable,
    why="The order of equal elements differs from PyTorch's.",
)
def _sorted(x: Any, dim: Any = -1, descending: bool = False, *, stable: Any = None) -> Any:
    order = _order(x, dim, descending, stable=stable)
    return (jnp.take_along_axis(x, order, dim) if x.ndim else x), order


# an index of one number keeps the dimension, unlike in JAX


@_implements(
    _aten.index_select, _aten.index_select.default, why="In JAX, an index of one number drops the dimension."
)
def _selected(x: Any, dim: Any, index: Any) -> Any:
    return jnp.take(x, jnp.reshape(index, -1), axis=dim) if x.ndim else x


# results have the dtype of the input, in a half-precision network with float32 normalization


@_implements(
    _aten.native_batch_norm,
    _aten.native_batch_norm.default,
    why="torchax returns float32 for an input in half precision.",
)
@in_float32
def _batch_norm(x: Any, *parameters: Any) -> Any:
    result, *statistics = native_batch_norm(x, *parameters)
    return (result.astype(x.dtype), *statistics)


# products of three tensors, as in `nn.Bilinear`; torchax writes out their terms one by one


@_implements(
    _aten._trilinear,
    _aten._trilinear.default,
    why="torchax writes out the terms of `nn.Bilinear` one by one, which is slow.",
)
def _trilinear(
    x: Any,
    y: Any,
    z: Any,
    expand_x: Any,
    expand_y: Any,
    expand_z: Any,
    summed: Any,
    unroll_dim: Any = 1,  # noqa: ARG001 # torch's, for its memory
) -> Any:
    rank = x.ndim + len(expand_x)
    of = [[d for d in range(rank) if d not in at] for at in (expand_x, expand_y, expand_z)]
    left = [d for d in range(rank) if d not in summed]
    return jnp.einsum(x, of[0], y, of[1], z, of[2], left, optimize="optimal")


# windows of signals


def on_host_first(make: Any) -> Any:
    """A function that creates a tensor: first on the host, then moved to the device."""

    @functools.wraps(make)
    def window(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        kwargs = {name: value for name, value in kwargs.items() if value is not None}
        with no_dispatch(), DisableTorchFunction():
            made = make(*args, **kwargs)
        on_host = device is None or torch.device(device).type == "cpu"
        return made if on_host else arrays.tensor(arrays.of_host(made))

    return window


for _name in _WINDOWS:
    _operation = getattr(_aten, f"{_name}_window")
    _function = on_host_first(getattr(torch, f"{_name}_window"))
    _overloads = [getattr(_operation, overload) for overload in _operation.overloads()]
    operator(
        _function,
        _operation,
        *_overloads,
        why="torchax lacks windows of signals, or raises for their options.",
        is_jax_function=False,
    )


# `F.fold`, which torchax supports without padding only


@_implements(_aten.col2im, _aten.col2im.default, why="torchax supports `F.fold` without padding only.")
def _folded(x: Any, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    places = [
        (size + 2 * pad - apart * (wide - 1) - 1) // step + 1
        for size, pad, apart, wide, step in zip(
            output_size, padding, dilation, kernel_size, stride, strict=False
        )
    ]
    patches = x.reshape(*x.shape[:-2], -1, *kernel_size, *places)
    unpadded = [(0, 0, 0)] * (patches.ndim - 4)
    made = 0
    for place in np.ndindex(*kernel_size):
        edges = []
        for i, apart, pad, many, step, size in zip(
            place, dilation, padding, places, stride, output_size, strict=False
        ):
            first = i * apart - pad
            edges.append((first, size - first - (many - 1) * step - 1, step - 1))
        made += jax.lax.pad(patches[..., *place, :, :], x.dtype.type(0), (*unpadded, *edges))
    return made


# pooling to a given size


def _pooled(x: Any, sizes: Any) -> Any:
    """The largest element of each window, and its index among the elements of the last dimensions."""
    count = len(sizes)
    shape = x.shape[x.ndim - count :]
    sizes = [size if wanted is None else wanted for size, wanted in zip(shape, sizes, strict=True)]
    index: Any = 0
    inside: Any = True
    for axis, (size, wanted) in enumerate(zip(shape, sizes, strict=True)):
        start = np.arange(wanted) * size // wanted
        end = -(-(np.arange(wanted) + 1) * size // wanted)
        offsets = np.arange((end - start).max())
        place = start[:, None] + offsets  # the elements of each window
        layout = [1] * (2 * count)
        layout[axis], layout[count + axis] = place.shape
        index = index * size + np.minimum(place, size - 1).reshape(layout)
        inside = inside & (place < end[:, None]).reshape(layout)
    flat = (*np.broadcast_shapes(index.shape, inside.shape)[:count], -1)
    index = np.broadcast_to(index, inside.shape).reshape(flat)
    inside = inside.reshape(flat)
    least = -jnp.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).min
    elements = jnp.where(inside, x.reshape(*x.shape[: x.ndim - count], -1)[..., index], least)
    first = jnp.argmax(elements, axis=-1, keepdims=True)
    places = jnp.take_along_axis(jnp.broadcast_to(index, elements.shape), first, axis=-1)[..., 0]
    return jnp.take_along_axis(elements, first, axis=-1)[..., 0], places


@_implements(
    _aten.adaptive_max_pool2d, _aten.adaptive_max_pool2d.default, why="torchax lacks adaptive max pooling."
)
def _adaptive_max_pool2d(x: Any, output_size: Any) -> Any:
    return _pooled(x, output_size)


@_implements(
    _aten.adaptive_max_pool3d, _aten.adaptive_max_pool3d.default, why="torchax lacks adaptive max pooling."
)
def _adaptive_max_pool3d(x: Any, output_size: Any) -> Any:
    return _pooled(x, output_size)


# a loss whose list of classes ends at -1


@_implements(
    _aten.multilabel_margin_loss_forward,
    _aten.multilabel_margin_loss_forward.default,
    why="torchax does not end the list of classes at -1.",
)
def _multilabel_margin(x: Any, target: Any, reduction: int) -> Any:
    is_listed = jnp.cumprod(target >= 0, axis=-1)
    is_target = (jax.nn.one_hot(target, x.shape[-1]) * is_listed[..., None]).max(-2)
    listed = jnp.take_along_axis(x, jnp.maximum(target, 0), -1)
    margins = 1 - listed[..., :, None] + x[..., None, :]
    is_counted = is_listed[..., :, None] * (1 - is_target)[..., None, :] * (margins > 0)
    losses = (margins * is_counted).sum((-2, -1)) / x.shape[-1]
    losses = (losses, losses.mean(), losses.sum())[reduction]
    return losses.astype(x.dtype), is_target.astype(x.dtype)


# unpooling, with zeros for elements that pooling dropped; torchax takes one element after the other


@_implements(
    _aten.max_unpool2d,
    _aten.max_unpool2d.default,
    why="torchax unpools one element after the other, which is slow.",
)
@_implements(
    _aten.max_unpool3d,
    _aten.max_unpool3d.default,
    why="torchax unpools one element after the other, which is slow.",
)
def _unpooled(x: Any, indices: Any, output_size: Any, *_ways: Any) -> Any:
    apart = x.shape[: x.ndim - len(output_size)]
    values = x.reshape(math.prod(apart), -1)
    made = _placed(values, indices.reshape(values.shape), math.prod(output_size))
    return made.reshape(*apart, *output_size)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _placed(values: Any, places: Any, size: Any) -> Any:
    """Zeros with values at some positions; a position shared by windows has its gradient as often."""
    rows = jnp.arange(len(values))[:, None]
    return jnp.zeros((len(values), size), values.dtype).at[rows, places].set(values)


def _placed_and_kept(values: Any, places: Any, size: Any) -> Any:
    return _placed(values, places, size), places


def _taken_back(_size: Any, places: Any, gradient: Any) -> Any:
    return jnp.take_along_axis(gradient, places, axis=1), None


_placed.defvjp(_placed_and_kept, _taken_back)


# connectionist temporal classification


@_implements(torch.nn.functional.ctc_loss, why="torchax lacks `ctc_loss`.", is_jax_function=False)
def _ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: Any = 0,
    reduction: Any = "mean",
    zero_infinity: bool = False,
) -> Any:
    # The lengths, and sometimes the targets, are on the host.
    env, logs, targets = log_probs._env, log_probs.jax(), _array(targets)
    input_lengths, target_lengths = (_array(one).reshape(-1) for one in (input_lengths, target_lengths))
    is_batch = logs.ndim == 3
    if not is_batch:
        logs = logs[:, None]
    if targets.ndim == 1:  # concatenated
        starts = jnp.cumsum(target_lengths) - target_lengths
        longest = int(target_lengths.max()) if is_batch else targets.size
        places = starts[:, None] + jnp.arange(longest)
        targets = targets[jnp.minimum(places, targets.size - 1)]
    losses = _negative_logs(logs, targets, input_lengths, target_lengths, blank)
    if zero_infinity:
        losses = jnp.where(jnp.isinf(losses), 0, losses)
    if reduction == "mean":  # per element of a target
        losses = (losses / jnp.maximum(target_lengths, 1)).mean()
    elif reduction == "sum":
        losses = losses.sum()
    return torchax.tensor.Tensor(losses if is_batch else losses.reshape(()), env)


def _array(numbers: Any) -> Any:
    if isinstance(numbers, torch.Tensor):
        return numbers.jax() if isinstance(numbers, _KINDS) else arrays.of_host(numbers)
    return jnp.asarray(numbers)


@functools.partial(jax.jit, static_argnums=4)
def _negative_logs(logs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: Any) -> Any:
    """The negative logarithm of the sum over all alignments, for each sequence of a batch."""
    steps, batch, _ = logs.shape
    length = targets.shape[1]
    # Blanks stand before, between and after the labels.
    labels = jnp.full((batch, 2 * length + 1), blank).at[:, 1::2].set(targets)
    may_skip = (
        jnp.zeros(labels.shape, bool)
        .at[:, 2:]
        .set((labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2]))
    )
    known = jnp.take_along_axis(logs, jnp.broadcast_to(labels, (steps, *labels.shape)), axis=2)
    impossible = jnp.full((batch, 1), -jnp.inf, logs.dtype)

    def _sum(*alignments: Any) -> Any:
        # Impossible alignments have the gradient zero, not NaN.
        ways = jnp.stack(alignments)
        largest = jax.lax.stop_gradient(ways.max(axis=0))
        open_ = jnp.isfinite(largest)
        total = jnp.exp(jnp.where(open_, ways - jnp.where(open_, largest, 0), -jnp.inf)).sum(axis=0)
        return jnp.where(open_, jnp.log(jnp.where(open_, total, 1)) + jnp.where(open_, largest, 0), -jnp.inf)

    def step(so_far: Any, now: Any) -> Any:
        time, log = now
        one = jnp.concatenate([impossible, so_far[:, :-1]], axis=1)
        two = jnp.concatenate([impossible, impossible, so_far[:, :-2]], axis=1)[:, : labels.shape[1]]
        further = _sum(so_far, one, jnp.where(may_skip, two, -jnp.inf)) + log
        return jnp.where((time < input_lengths)[:, None], further, so_far), None

    start = jnp.where(jnp.arange(labels.shape[1]) < 2, known[0], -jnp.inf)
    start = jnp.where(
        (input_lengths > 0)[:, None], start, jnp.where(jnp.arange(labels.shape[1]) == 0, 0.0, -jnp.inf)
    )
    reached, _ = jax.lax.scan(step, start, (jnp.arange(1, steps), known[1:]))
    last = jnp.take_along_axis(reached, 2 * target_lengths[:, None], axis=1)[:, 0]
    before = jnp.take_along_axis(reached, jnp.maximum(2 * target_lengths - 1, 0)[:, None], axis=1)[:, 0]
    return -_sum(last, jnp.where(target_lengths > 0, before, -jnp.inf))


def _masked_on_host(compute: Callable[..., Any]) -> Any:
    """`compute_mask` of a pruning method, which writes through a view; in torchax that is a copy."""

    @functools.wraps(compute)
    def compute_mask(method: Any, scores: Any, default_mask: Any) -> Any:
        if not isinstance(scores, _KINDS):
            return compute(method, scores, default_mask)
        on_host = torchax.default_env().j2t_copy
        with disable_current_modes():
            mask = compute(method, on_host(scores.jax()), on_host(default_mask.jax()))
        return mask.to("jax")

    return compute_mask


for _method in (prune.RandomUnstructured, prune.L1Unstructured, prune.RandomStructured, prune.LnStructured):
    patch(
        f"torch.nn.utils.prune:{_method.__name__}.compute_mask",
        why="PyTorch writes the mask through a view, which is a copy on torchax.",
        upstream=TORCH + "nn/utils/prune.py",
    )(_masked_on_host(_method.compute_mask))
