"""Tensors of the host, and parts of others, that a marked function is given: it has copies of them on the device.

What it writes to a copy, as an average of weights that were read from a file does, is written to the tensor.
"""

from __future__ import annotations

import torch
import torchax


def copies(tensors, given):
    """The tensors of which something else is given, with that and what is in it."""
    return [(one, copy, copy.jax()) for one, copy in zip(tensors, given) if one is not copy]


def put_back(copies):
    """Write to the tensors what was written to their copies."""
    for tensor, copy, value in copies:
        if copy.jax() is value:
            continue
        with torch.no_grad():
            if isinstance(tensor, torchax.view.View):
                tensor.update(copy)
            elif tensor.shape == copy.shape and tensor.dtype == copy.dtype:
                tensor.copy_(copy.detach().cpu())
            else:
                tensor.data = copy.detach().cpu()
