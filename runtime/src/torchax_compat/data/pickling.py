"""Pickling and copying of torchax tensors: they are pickled as CPU tensors.

torchax tensors cannot be pickled.
With this `__reduce_ex__`, `torch.save` and `pickle.dump` write values that hold them at any depth.
PyTorch without torchax reads the file, and the loaded tensors are on the host.
`copy.copy` of a tensor, which PyTorch does by pickling, shares its array.
"""

from __future__ import annotations

from typing import Any

import torch

from ..adapters.torch_internals import DisableTorchFunction
from ..patches.declarations import TORCHAX, patch
from ..tensor import arrays


@patch(
    "torchax.tensor:Tensor.__reduce_ex__",
    why="torchax tensors cannot be pickled.",
    upstream=TORCHAX + "tensor.py",
)
@patch(
    "torchax.view:View.__reduce_ex__", why="Views of torchax cannot be pickled.", upstream=TORCHAX + "view.py"
)
def _as_on_host(tensor: torch.Tensor, protocol: Any) -> Any:
    """`__reduce_ex__`."""
    with DisableTorchFunction():
        wants_gradient = tensor.requires_grad
        host = arrays.on_host(tensor.jax())
        if isinstance(tensor, torch.nn.Parameter):
            host = torch.nn.Parameter(host, wants_gradient)
        else:
            host.requires_grad_(wants_gradient)
        return host.__reduce_ex__(protocol)


@patch(
    "torchax.tensor:Tensor.__copy__",
    why="`copy.copy` of a tensor, which PyTorch does by pickling, would copy its array to the host.",
    is_new=True,
)
@patch(
    "torchax.view:View.__copy__",
    why="`copy.copy` of a view, which PyTorch does by pickling, would copy its array to the host.",
    is_new=True,
)
def _shared(tensor: torch.Tensor) -> Any:
    """`__copy__`."""
    return tensor.__deepcopy__({})
