"""Convolutions that XLA is slow at on CPUs, computed in another way there; on a TPU nothing changes.

On CPUs, XLA has no fast path for

- convolutions with groups, and with three dimensions,
- the gradient of the weights if the input is dilated, as in a transposed convolution,
- images that are smaller than the kernel, as in the last layers of a network.

They took ten to four hundred times as long as PyTorch's.
JAX's transpose rule of convolutions is replaced for the second of these.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jax.extend.core import primitives
from jax.interpreters import ad

from ..patches.declarations import setup
from ..tensor import arrays

#: A larger kernel stays one operation of XLA, however slow: the sum here has a term for each element of it.
_MOST_PLACES = 128


@functools.cache
def _is_on_cpu() -> bool:
    return bool(jax.default_backend() == "cpu")


def is_slow(sizes: Any, kernel: Any, groups: Any, padding: Any) -> Any:
    """Whether XLA is slow at a convolution of an image and a kernel of these sizes."""
    if not _is_on_cpu():
        return False
    if groups == 1:
        return len(kernel) > 2 or _is_small(sizes, kernel, padding)
    return 1 < math.prod(kernel) <= _MOST_PLACES


def _is_small(sizes: Any, kernel: Any, padding: Any) -> bool:
    """Whether a kernel covers a whole image, at more than one position.

    The image is the smaller one: the output, or the input of a transposed convolution.
    """
    reaches = all(size <= wide for size, wide in zip(sizes, kernel, strict=False))
    meets_once = all(size in (1, wide) for size, wide in zip(sizes, kernel, strict=False)) and not any(
        padding
    )
    return reaches and not meets_once and 1 < math.prod(kernel) <= _MOST_PLACES


def output_sizes(sizes: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    """The sizes of the output of a convolution."""
    return tuple(
        (size + 2 * pad - apart * (wide - 1) - 1) // step + 1
        for size, pad, apart, wide, step in zip(sizes, padding, dilation, kernel, stride, strict=False)
    )


def convolved(x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: Any) -> Any:
    """`x` (batch, channels, *sizes), convolved with `weight` (channels, channels per group, *kernel)."""
    sizes = output_sizes(x.shape[2:], weight.shape[2:], stride, padding, dilation)
    return _summed(x, weight, (sizes, tuple(stride), tuple(padding), tuple(dilation), groups))


def transposed(
    x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, output_padding: Any, groups: Any
) -> Any:
    """The transposed convolution of `x` with `weight` (channels, output channels per group, *kernel)."""
    sizes = [
        (size - 1) * step - 2 * pad + apart * (wide - 1) + more + 1
        for size, step, pad, apart, wide, more in zip(
            x.shape[2:], stride, padding, dilation, weight.shape[2:], output_padding, strict=False
        )
    ]
    shape = (x.shape[0], weight.shape[1] * groups, *sizes)
    return _transposed(
        x, weight, shape, (x.shape[2:], tuple(stride), tuple(padding), tuple(dilation), groups)
    )


def _quick(function: Callable[..., Any], static: Any) -> Any:
    """A function that is compiled, also in a program that runs eagerly.

    The arguments are kept for the gradients, not the slices of `x` for each element of the kernel.
    """
    kept = jax.checkpoint(function, prevent_cse=False, static_argnums=static)
    return jax.jit(kept, static_argnums=static, inline=True)


@functools.partial(_quick, static=2)
def _summed(x: Any, weight: Any, settings: Any) -> Any:
    """A convolution as a sum of fast operations."""
    *settings, groups = settings
    dtype = x.dtype
    x, weight = arrays.widened(x), arrays.widened(weight)
    has_layers = groups == 1 and len(weight.shape) > 4
    added = _over_layers if has_layers else functools.partial(_over_places, groups=groups)
    return added(x, weight, *settings).astype(dtype)


@functools.partial(_quick, static=(2, 3))
def _transposed(x: Any, weight: Any, shape: Any, settings: Any) -> Any:
    """The transpose of a convolution whose input has this shape."""
    given = jax.ShapeDtypeStruct(shape, x.dtype)
    (result,) = jax.linear_transpose(lambda y: _summed(y, weight, settings), given)(x)
    return result


def _over_layers(x: Any, weight: Any, sizes: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    """A convolution with three dimensions, as a sum of those with two for each layer of the kernel."""
    batch, channels, _, *others = x.shape
    x = jax.numpy.moveaxis(x, 1, 2)
    x = lax.pad(x, x.dtype.type(0), ((0, 0, 0), (padding[0], padding[0], 0), *[(0, 0, 0)] * (x.ndim - 2)))
    made: Any = 0
    for layer in range(weight.shape[2]):
        first = layer * dilation[0]
        part = lax.slice_in_dim(x, first, first + (sizes[0] - 1) * stride[0] + 1, stride[0], axis=1)
        made += lax.conv_general_dilated(
            part.reshape(-1, channels, *others),
            weight[:, :, layer],
            stride[1:],
            [(pad, pad) for pad in padding[1:]],
            rhs_dilation=dilation[1:],
        )
    return jax.numpy.moveaxis(made.reshape(batch, sizes[0], -1, *sizes[1:]), 1, 2)


def _over_places(
    x: Any, weight: Any, sizes: Any, stride: Any, padding: Any, dilation: Any, groups: Any
) -> Any:
    """The sum of the products of each element of the kernel and the slice of `x` that it meets."""
    batch, channels, *given = x.shape
    kernel = weight.shape[2:]
    x = lax.pad(x, x.dtype.type(0), ((0, 0, 0), (0, 0, 0), *((pad, pad, 0) for pad in padding)))
    weight = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
    # Split instead of indexed: the gradient of each index would be as large as all weights.
    weights = lax.split(jax.numpy.moveaxis(weight, -1, 0), [1] * weight.shape[-1])
    product = _scaled if channels == groups else _multiplied
    x = x.reshape(batch, groups, channels // groups, *x.shape[2:])
    if product is _multiplied:
        x = jax.numpy.moveaxis(x, 0, 2)
    terms = []
    for place, of_place in zip(itertools.product(*map(range, kernel)), weights, strict=False):
        first = [i * apart for i, apart in zip(place, dilation, strict=False)]
        if not all(map(_meets, first, sizes, stride, padding, given)):
            continue
        last = [
            start + (size - 1) * step + 1 for start, size, step in zip(first, sizes, stride, strict=False)
        ]
        part = lax.slice(x, (0, 0, 0, *first), (*x.shape[:3], *last), (1, 1, 1, *stride))
        terms.append(product(part, of_place[0]))
    made = sum(terms)
    if product is _multiplied:
        made = jax.numpy.moveaxis(made, 2, 0)
    return made.reshape(batch, -1, *sizes)


def _meets(first: Any, size: Any, step: Any, pad: Any, width: Any) -> bool:
    """Whether an element of the kernel meets more than padding along a dimension."""
    return any(pad <= first + i * step < pad + width for i in range(size))


def _scaled(part: Any, weight: Any) -> Any:
    """For groups of one channel: (batch, group, 1, *sizes) to (batch, group, output channels, *sizes)."""
    return part * weight.reshape(1, *weight.shape[:2], *[1] * (part.ndim - 3))


def _multiplied(part: Any, weight: Any) -> Any:
    """(group, channels, batch, *sizes) to (group, output channels, batch, *sizes)."""
    flat = part.reshape(*part.shape[:2], -1)
    return jax.numpy.matmul(weight, flat).reshape(*weight.shape[:2], *part.shape[2:])


_transpose = ad.primitive_transposes[primitives.conv_general_dilated_p]


def _transpose_on_cpu(gradient: Any, x: Any, weight: Any, **settings: Any) -> Any:
    """The gradient of the weights for a dilated input: the input slides over the gradient of the output."""
    if not (_is_on_cpu() and ad.is_undefined_primal(weight) and _is_spread(**settings)):
        return _transpose(gradient, x, weight, **settings)
    dims = settings["dimension_numbers"]
    spreads, apart = settings["lhs_dilation"], settings["rhs_dilation"]
    of_x, of_weight, of_gradient = (spec[2:] for spec in (dims.lhs_spec, dims.rhs_spec, dims.out_spec))
    padding = []
    for i, (before, _) in enumerate(settings["padding"]):
        reach = (weight.aval.shape[of_weight[i]] - 1) * apart[i]
        width = (x.shape[of_x[i]] - 1) * spreads[i] + 1
        padding.append((reach - before, before + width - gradient.shape[of_gradient[i]]))
    found = lax.conv_general_dilated(
        gradient,
        x.astype(gradient.dtype),
        window_strides=apart,
        padding=padding,
        rhs_dilation=spreads,
        dimension_numbers=lax.ConvDimensionNumbers(
            (dims.out_spec[1], dims.out_spec[0], *of_gradient),
            (dims.lhs_spec[1], dims.lhs_spec[0], *of_x),
            dims.rhs_spec,
        ),
        precision=settings["precision"],
    )
    return None, lax.rev(found, of_weight).astype(weight.aval.dtype)


def _is_spread(
    window_strides: Any, lhs_dilation: Any, feature_group_count: Any, batch_group_count: Any, **_: Any
) -> bool:
    is_alone = feature_group_count == batch_group_count == 1
    return is_alone and set(window_strides) == {1} and any(step > 1 for step in lhs_dilation)


@setup(
    "transpose rule of jax.lax.conv_general_dilated",
    why="On CPUs, XLA is slow at the gradient of the weights of a transposed convolution.",
)
def _replace_rule() -> Any:
    rules, primitive = ad.primitive_transposes, primitives.conv_general_dilated_p
    rules[primitive] = _transpose_on_cpu
    return functools.partial(rules.__setitem__, primitive, _transpose)
