"""The methods of a `DTensor` for tensors of the program, where each device is a rank.

A sharded tensor of the runtime has the shape and the values of the whole tensor, as a `DTensor` has.
So computing with it needs no class of its own: JAX inserts the communication.
`placements`, `device_mesh` and `to_local()` say what the program has declared; the runtime may shard a
parameter along another dimension.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import distributed
from torchax.tensor import Tensor

from .. import ranks
from ..patches import application
from ..ranks import between_processes
from ..tensor import arrays, placements


def whole(tensors: list[Any]) -> list[Any]:
    """Tensors with all elements on this process, in place of those that are sharded over several.

    All processes have to call it.
    """
    shared = {
        i: arrays.array_of(one)
        for i, one in enumerate(tensors)
        if isinstance(one, Tensor) and between_processes.is_shared(arrays.array_of(one))
    }
    values = between_processes.gathered_parts(list(shared.values()))
    found = dict(zip(shared, map(arrays.tensor, values), strict=True))
    return [found.get(i, one) for i, one in enumerate(tensors)]


def _full_tensor(self: Any, **_options: Any) -> Any:
    """`DTensor.full_tensor()`."""
    return whole([self])[0]


def _local(self: Any, **_options: Any) -> Any:
    """`DTensor.to_local()`: the part of the first rank of this process."""
    found, kept = whole([self])[0], placements.of(self)
    if kept is None or kept.declared is None:
        return found
    mesh, placed = kept.declared
    for dimension, (size, placement) in enumerate(zip(mesh.shape, placed, strict=True)):
        if placement.is_shard():
            parts = torch.chunk(found, size, placement.dim)
            rank = mesh.get_local_rank(dimension)
            found = parts[rank] if rank < len(parts) else parts[0][:0]
    return found


def _declared(number: int, name: str) -> Any:
    def get(self: Any) -> Any:
        kept = placements.of(self)
        if kept is None or kept.declared is None:
            raise AttributeError(f"this tensor is not sharded, and has no attribute `{name}`")
        return kept.declared[number]

    return property(get)


def _distribute(
    tensor: torch.Tensor, device_mesh: Any = None, placements: Any = None, **_options: Any
) -> Any:
    """`distribute_tensor(...)`: the tensor on the device, which is sharded like one of the mesh."""
    from . import meshes

    return meshes.distribute(tensor, device_mesh, placements)


class _Like(type):
    """The class of `DistributedTensor`."""

    def __instancecheck__(cls, value: Any) -> bool:
        kept = placements.of(value) if isinstance(value, Tensor) else None
        return (kept is not None and kept.declared is not None) or isinstance(value, _original())


class DistributedTensor(metaclass=_Like):
    """`DTensor`, for a program that asks whether a tensor is one, or makes one."""

    @staticmethod
    def from_local(
        local: torch.Tensor, device_mesh: Any = None, placements: Any = None, **_options: Any
    ) -> Any:
        """`DTensor.from_local(...)`, of parts that are the same on all ranks."""
        from . import meshes

        return meshes.distributed_from_local(local, device_mesh, placements)


@functools.cache
def _original() -> Any:
    from torch.distributed import tensor

    return tensor.DTensor


def _start() -> Callable[[], None]:
    """Replace the class and the functions of torch, until the function that is returned is called."""
    if not distributed.is_available():
        return lambda: None
    from torch.distributed import tensor  # it imports much, which only programs with ranks wait for

    _original()
    undone = application.replace(
        [
            (torch.Tensor, "full_tensor", _full_tensor),
            (torch.Tensor, "to_local", _local),
            (torch.Tensor, "device_mesh", _declared(0, "device_mesh")),
            (torch.Tensor, "placements", _declared(1, "placements")),
            (tensor, "DTensor", DistributedTensor),
            (tensor, "distribute_tensor", _distribute),
        ]
    )
    return functools.partial(application.restore, undone)


ranks.STARTS.append(_start)
