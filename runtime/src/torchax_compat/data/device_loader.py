"""`DeviceLoader`: the batches of a loader on the device."""

from __future__ import annotations

import copy
from collections import UserDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class DeviceLoader:
    """A loader whose batches are on the device, such as `MpDeviceLoader` of torch_xla.

    Tensors at any depth of lists, tuples and dictionaries are moved when a batch is read.
    Other attributes, such as `dataset`, are those of the loader.

    Args:
        loader: a `DataLoader`, or anything else that can be iterated over.
        device: where the tensors are moved to.
        sharding: a `jax.sharding.NamedSharding` for tensors with as many dimensions as its `spec`.

    Example:
        >>> import torch, torchax_compat
        >>> loader = torch.utils.data.DataLoader(torch.arange(4.0), batch_size=2)
        >>> [batch.device.type for batch in torchax_compat.data.DeviceLoader(loader, "cpu")]
        ['cpu', 'cpu']
    """

    def __init__(self, loader: Any, device: Any = "jax", sharding: Any = None) -> None:
        self._loader, self._device, self._sharding = loader, device, sharding

    def __iter__(self) -> Iterator[Any]:
        return map(self._moved, self._loader)

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_loader":  # while it is copied or unpickled
            raise AttributeError(name)
        return getattr(self._loader, name)

    def _moved(self, batch: Any) -> Any:
        import torch

        from ..adapters.torch_internals import pytree

        if isinstance(batch, UserDict):  # as the batches of tokenizers
            made = copy.copy(batch)
            made.data = self._moved(batch.data)
            return made
        return pytree.tree_map_only(torch.Tensor, self._tensor, batch)

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        moved = tensor.to(self._device)
        if self._sharding is not None and moved.dim() == len(self._sharding.spec):
            import jax

            moved.apply_jax_(jax.device_put, self._sharding)
        return moved
