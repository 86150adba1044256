"""Copies between the host and the device, which are copies; importing this file makes them so.

What `x.cpu()` of torchax gives shares its memory with what JAX keeps: `x` itself where that is on the host, and
else what the next `x.cpu()` gives, so that writing to it changes these, too.
`x.to("jax")` reads a large `x` later, when a program may have put the next picture there.
On a GPU both are done when the call returns, and share nothing.
`x.to("jax", copy=True)` gives `x` itself where that is on the device.
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


_move = Environment._torch_Tensor_to


def _moved(environment, args, kwargs):
    """`tensor.to(...)`, of which the last place is whether to copy."""
    result = _move(environment, args, kwargs)
    plain = [one for one in args[1:] if isinstance(one, bool)]
    is_copied = kwargs.get("copy", plain[1] if len(plain) > 1 else False)
    return result.clone() if is_copied and result is args[0] else result


Environment.j2t_copy, Environment.t2j_copy = _to_host, _to_device
Environment._torch_Tensor_to = _moved
