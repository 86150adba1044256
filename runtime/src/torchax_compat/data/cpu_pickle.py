"""A `pickle_module` for `torch.save` that writes torchax tensors as CPU tensors, at any depth.

PyTorch without torchax reads the file; a module that is loaded from it is on the host.
Where torchax is not imported, as in a program that runs on CUDA, this is Python's own `pickle`.
"""

from __future__ import annotations

import collections
import copyreg
import pickle
import sys
from typing import IO, Any


class Pickler(pickle.Pickler):
    """Writes torchax tensors, at any depth of the pickled value, as CPU tensors."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "torchax" in sys.modules:
            from torchax.tensor import Tensor
            from torchax.view import View

            reducers: Any = {Tensor: _as_on_host, View: _view_as_on_host}
            known: Any = copyreg.dispatch_table
            self.dispatch_table = collections.ChainMap(reducers, known)


def dump(value: object, file: IO[bytes], **options: Any) -> None:
    """`pickle.dump` with this pickler."""
    Pickler(file, **options).dump(value)


def _as_on_host(tensor: Any) -> Any:
    import torch

    host = tensor.cpu().detach()
    if isinstance(tensor, torch.nn.Parameter):
        host = torch.nn.Parameter(host, tensor.requires_grad)
    else:
        host.requires_grad_(tensor.requires_grad)
    return host.__reduce_ex__(pickle.DEFAULT_PROTOCOL)


def _view_as_on_host(view: Any) -> Any:
    return _as_on_host(view.torch())
