"""Transposed convolutions in groups, for which torchax mixes the weights; importing this file mends that."""

from __future__ import annotations

import torch
from torchax.ops import jaten

from .registry import register

_convolution = jaten._aten_convolution


def _convolved(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    if transposed and groups > 1:
        weight = _in_order(weight, groups)
    return _convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def _in_order(weight, groups):
    """Weights in the order in which torchax takes them: for each input of a group those of all groups."""
    apart = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    return apart.swapaxes(0, 1).reshape(weight.shape)


register(_convolved, torch.ops.aten.convolution, torch.ops.aten.convolution.default)
