"""Copies between host and device that share no memory.

In torchax, `x.cpu()` shares its memory with JAX: with `x` itself on JAX's CPU backend, otherwise with the
next `x.cpu()`.
Writes to it change these, too.
`x.to("jax")` reads a large `x` later, when a program may have overwritten it with the next image.
`x.to("jax", copy=True)` returns `x` itself if it is on the device.
On a GPU, both copies are complete when the call returns, and share nothing.
Importing this module patches torchax to behave in the same way.
"""

from __future__ import annotations

import jax
import torch
from torch.utils import _pytree as pytree
from torchax.tensor import Environment

from . import arrays


def _to_host(environment, values):
    return pytree.tree_map_only(jax.Array, arrays.on_host, values)


def _to_device(environment, tensors):
    return pytree.tree_map_only(torch.Tensor, arrays.of_host, tensors)


_move = Environment._torch_Tensor_to


def _moved(environment, args, kwargs):
    """`tensor.to(...)`; its last positional argument says whether to copy."""
    result = _move(environment, args, kwargs)
    plain = [one for one in args[1:] if isinstance(one, bool)]
    is_copied = kwargs.get("copy", plain[1] if len(plain) > 1 else False)
    return result.clone() if is_copied and result is args[0] else result


Environment.j2t_copy = _to_host
if hasattr(Environment.t2j_copy, "copy"):  # `torchax_mesh` shards what this method copies
    Environment.t2j_copy.copy = _to_device
else:
    Environment.t2j_copy = _to_device
Environment._torch_Tensor_to = _moved
