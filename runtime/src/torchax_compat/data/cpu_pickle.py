"""A pickler that writes torchax tensors as CPU tensors.

torchax tensors cannot be pickled.
PyTorch without torchax reads the file; a module that is loaded from it is on the host.
"""

from __future__ import annotations

import collections
import copyreg
import pickle

import torch
import torchax
from torchax.view import View


def _as_on_host(tensor):
    host = tensor.cpu().detach()
    if isinstance(tensor, torch.nn.Parameter):
        host = torch.nn.Parameter(host, tensor.requires_grad)
    else:
        host.requires_grad_(tensor.requires_grad)
    return host.__reduce_ex__(pickle.DEFAULT_PROTOCOL)


def _view_as_on_host(view):
    return _as_on_host(view.torch())


class Pickler(pickle.Pickler):
    """Writes torchax tensors, at any depth of the pickled value, as CPU tensors."""

    dispatch_table = collections.ChainMap(
        {torchax.tensor.Tensor: _as_on_host, View: _view_as_on_host}, copyreg.dispatch_table
    )


def dump(value, file, **options):
    """`pickle.dump` with this pickler."""
    Pickler(file, **options).dump(value)
