"""Tensors of the device, which torchax cannot pickle, are written as tensors of the host; importing this file
brings that.

So `torch.save` and `pickle.dump` write what holds them, however deep, wherever that is done.
Plain torch reads the file, and what it reads is on the host.
`copy.copy` of a tensor, which torch does by pickling, shares its array.
"""

from __future__ import annotations

import torch
from torchax.tensor import Tensor
from torchax.view import View

from .. import arrays


def _as_on_host(tensor, protocol):
    """`__reduce_ex__`."""
    with torch._C.DisableTorchFunction():
        wants_gradient = tensor.requires_grad
        host = arrays.on_host(tensor.jax())
        if isinstance(tensor, torch.nn.Parameter):
            host = torch.nn.Parameter(host, wants_gradient)
        else:
            host.requires_grad_(wants_gradient)
        return host.__reduce_ex__(protocol)


def _shared(tensor):
    """`__copy__`."""
    return tensor.__deepcopy__({})


for _kind in (Tensor, View):
    _kind.__reduce_ex__, _kind.__copy__ = _as_on_host, _shared
