"""Copies between the host and the device, which are copies; importing this file makes them so.

What `x.cpu()` of torchax gives shares its memory with what JAX keeps: `x` itself where that is on the host, and
else what the next `x.cpu()` gives, so that writing to it changes these, too.
`x.to("jax")` reads a large `x` later, when a program may have put the next picture there.
On a GPU both are done when the call returns, and share nothing.
"""

from __future__ import annotations

import jax
import torch
from torch.utils import _pytree as pytree
from torchax.tensor import Environment

from .. import arrays


def _to_host(environment, values):
    return pytree.tree_map_only(jax.Array, arrays.on_host, values)


def _to_device(environment, tensors):
    return pytree.tree_map_only(torch.Tensor, arrays.of_host, tensors)


Environment.j2t_copy, Environment.t2j_copy = _to_host, _to_device
