"""Convolutions: correct weights of grouped transposed ones, and a faster path for slow ones on CPUs.

torchax mixes up the weights of transposed convolutions with groups.
XLA is slow at some convolutions on CPUs (`convolutions_on_cpu.py`).
"""

from __future__ import annotations

from typing import Any

import torch

from ..adapters.torchax_internals import convolution
from ..patches.declarations import operator
from . import convolutions_on_cpu
from .per_dimension import each

_convolution = convolution


def _convolved(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: Any,
    output_padding: Any,
    groups: Any,
) -> Any:
    kernel = weight.shape[2:]
    settings = [each(setting, len(kernel)) for setting in (stride, padding, dilation, output_padding)]
    sizes = x.shape[2:]
    if x.ndim == weight.ndim and not transposed:
        sizes = convolutions_on_cpu.output_sizes(sizes, kernel, *settings[:3])
    if x.ndim == weight.ndim and convolutions_on_cpu.is_slow(sizes, kernel, groups, settings[1]):
        stride, padding, dilation, output_padding = settings
        if transposed:
            made = convolutions_on_cpu.transposed(
                x, weight, stride, padding, dilation, output_padding, groups
            )
        else:
            made = convolutions_on_cpu.convolved(x, weight, stride, padding, dilation, groups)
        return made if bias is None else made + bias.reshape(-1, *[1] * len(kernel))
    if transposed and groups > 1:
        weight = _in_order(weight, groups)
    return _convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def _in_order(weight: Any, groups: Any) -> Any:
    """Weights in the order that torchax expects: for each input of a group, those of all groups."""
    apart = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    return apart.swapaxes(0, 1).reshape(weight.shape)


operator(
    _convolved,
    torch.ops.aten.convolution,
    torch.ops.aten.convolution.default,
    why="torchax mixes up the weights of transposed convolutions with groups; XLA is slow at some on CPUs.",
)
