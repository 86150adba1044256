"""Pickling and copying of torchax tensors: they are pickled as CPU tensors.

torchax tensors cannot be pickled.
Importing this module patches their `__reduce_ex__`, so that `torch.save` and `pickle.dump` write values that
hold them at any depth.
PyTorch without torchax reads the file, and the loaded tensors are on the host.
`copy.copy` of a tensor, which PyTorch does by pickling, shares its array.
"""

from __future__ import annotations

import torch
from torchax.tensor import Tensor
from torchax.view import View

from ..tensor import arrays


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
