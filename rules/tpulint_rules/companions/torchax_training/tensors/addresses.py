"""Where tensors lie: `data_ptr()` and `untyped_storage()`; importing this file brings them.

torchax says 0 of every tensor, so that all of them seem to share their memory: loops that leave out tied weights
leave out all but one, and what saves models, such as `save_pretrained` of transformers, takes them for one.
Here what shares its data in torch has one storage, and no other tensor that is alive has it.
"""

from __future__ import annotations

from torchax.tensor import Tensor
from torchax.view import View

from . import layout


class _Storage:
    """What is asked of the storage of a tensor."""

    def __init__(self, tensor):
        self._owner = tensor

    @property
    def device(self):
        return self._owner.device

    def data_ptr(self):
        return id(self._owner)

    def nbytes(self):
        return self._owner.jax().nbytes

    size = __len__ = nbytes


def _storage(tensor):
    """The storage of the tensor that this one is a part of."""
    layout.of(tensor)  # by which copies that `reshape` made are known
    owner = tensor
    while True:
        owner = layout.named(owner)
        taken = vars(owner).get("_taken")
        if isinstance(owner, View):
            owner = owner.parent
        elif taken is not None:
            owner = taken.source
        else:
            return _Storage(owner)


def _address(tensor):
    return _storage(tensor).data_ptr() + layout.of(tensor).storage_offset() * tensor.element_size()


for _kind in (Tensor, View):
    _kind.data_ptr, _kind.untyped_storage = _address, _storage
