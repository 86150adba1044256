"""`data_ptr()` and `untyped_storage()` of torchax tensors.

torchax returns 0 for every tensor, so that all tensors seem to share their memory.
Loops that skip tied weights then skip all but one, and functions that save models, such as `save_pretrained`
of transformers, treat them as one tensor.
Here, tensors that share data in PyTorch have one storage, and no other live tensor has it.
"""

from __future__ import annotations

from typing import Any

from torchax.view import View

from ..patches.declarations import TORCHAX, patch
from . import memory_format

_WHY = "torchax returns 0 for every tensor, so that all tensors seem to share their memory."


class _Storage:
    """The attributes of a tensor's storage that programs use."""

    def __init__(self, tensor: Any) -> None:
        self._owner = tensor

    @property
    def device(self) -> Any:
        return self._owner.device

    def data_ptr(self) -> Any:
        return id(self._owner)

    def nbytes(self) -> Any:
        return self._owner.jax().nbytes

    size = __len__ = nbytes


@patch("torchax.tensor:Tensor.untyped_storage", why=_WHY, upstream=TORCHAX + "tensor.py")
@patch("torchax.view:View.untyped_storage", why=_WHY, upstream=TORCHAX + "view.py")
def _storage(tensor: Any) -> Any:
    """The storage of the tensor that this one is a view of."""
    memory_format.of(tensor)  # detects copies by `reshape`
    owner = tensor
    while True:
        owner = memory_format.named(owner)
        taken = vars(owner).get("_taken")
        if isinstance(owner, View):
            owner = owner.parent
        elif taken is not None:
            owner = taken.source
        else:
            return _Storage(owner)


@patch("torchax.tensor:Tensor.data_ptr", why=_WHY, upstream=TORCHAX + "tensor.py")
@patch("torchax.view:View.data_ptr", why=_WHY, upstream=TORCHAX + "view.py")
def _address(tensor: Any) -> Any:
    return _storage(tensor).data_ptr() + memory_format.of(tensor).storage_offset() * tensor.element_size()
