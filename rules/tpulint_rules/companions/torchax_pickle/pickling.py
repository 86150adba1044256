"""A pickler that knows the tensors of torchax.

Tensors of the device, which cannot be pickled, are written as tensors of the host.
Plain torch reads the file; a module that is read from it is on the host.
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
    """Writes tensors of torchax, wherever they are held, as tensors of the host."""

    dispatch_table = collections.ChainMap(
        {torchax.tensor.Tensor: _as_on_host, View: _view_as_on_host}, copyreg.dispatch_table
    )


def dump(value, file, **options):
    """`pickle.dump` with this pickler."""
    Pickler(file, **options).dump(value)
