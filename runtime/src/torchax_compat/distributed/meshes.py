"""Device meshes of PyTorch, as dimensions of the mesh of the runtime, where each device is a rank."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from jax.sharding import NamedSharding, PartitionSpec
from torch import distributed
from torchax.tensor import Tensor

from .. import ranks
from ..tensor import arrays, module_to, placements, sharding


@functools.cache
def of_data() -> Any:
    """The mesh that `fully_shard` uses if it gets none."""
    from torch.distributed.device_mesh import init_device_mesh

    if not distributed.is_initialized():
        distributed.init_process_group()
    return init_device_mesh("cpu", (ranks.size(),), mesh_dim_names=(ranks.AXIS,))


def use_for_model(mesh: Any) -> None:
    """Lay out the devices so that those of a mesh hold different parts of the parameters.

    Raises:
        NotImplementedError: the mesh does not consist of neighboring devices of this process.
    """
    numbers = mesh.mesh.flatten().tolist()
    if mesh.ndim != 1 or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise NotImplementedError(
            f"tensor parallelism over the ranks {numbers}: use the last dimension of a device mesh, so that "
            "the ranks are neighbors"
        )
    ranks.lay_out(len(numbers))


def axes(mesh: Any) -> tuple[str, ...]:
    """The dimension of the runtime's mesh for each dimension of a mesh of PyTorch."""
    if mesh.ndim == 2:
        if tuple(mesh.shape) != (ranks.world(), ranks.model()):
            ranks.lay_out(mesh.shape[1])
        return ranks.AXIS, ranks.MODEL_AXIS
    is_for_data = mesh.mesh_dim_names == (ranks.AXIS,) or mesh.size() != ranks.model()
    if is_for_data and mesh.size() != ranks.world():
        use_for_model(mesh)
        is_for_data = False
    return (ranks.AXIS,) if is_for_data else (ranks.MODEL_AXIS,)


def keep(tensor: torch.Tensor, mesh: Any, placed: Sequence[Any]) -> None:
    """Shard a tensor by placements, one for each dimension of a mesh of PyTorch."""
    spec: list[Any] = [None] * tensor.dim()
    for axis, placement, size in zip(axes(mesh), placed, mesh.shape, strict=True):
        if placement.is_shard() and tensor.shape[placement.dim] % size == 0:
            spec[placement.dim] = axis
    placements.keep(tensor, NamedSharding(sharding.mesh(), PartitionSpec(*spec)), (mesh, tuple(placed)))


def distribute(tensor: torch.Tensor, mesh: Any, placed: Sequence[Any] | None) -> torch.Tensor:
    """A tensor on the device, with the values of another one, that is sharded by placements."""
    mesh = mesh or of_data()
    made = arrays.tensor(arrays.array_of(tensor.detach()))
    if isinstance(tensor, torch.nn.Parameter):
        made = torch.nn.Parameter(made, tensor.requires_grad)
    keep(made, mesh, placed or [_replicated()] * mesh.ndim)
    return made


def distributed_from_local(local: torch.Tensor, mesh: Any, placed: Sequence[Any] | None) -> torch.Tensor:
    """The tensor of which all ranks have the same part."""
    mesh = mesh or of_data()
    placed = placed or [_replicated()] * mesh.ndim
    whole = arrays.on_torchax(local)
    for placement, size in reversed(list(zip(placed, mesh.shape, strict=True))):
        if placement.is_shard():
            whole = torch.cat([whole] * size, placement.dim)
    if isinstance(whole, Tensor):
        keep(whole, mesh, placed)
    return whole


def _replicated() -> Any:
    from torch.distributed.tensor import Replicate

    return Replicate()


def _place_again() -> None:
    """Replicate the tensors of modules over the new mesh, since XLA computes with arrays of one mesh."""
    of_data.cache_clear()
    for tensor in module_to.tensors():
        arrays.put(tensor, sharding.on_all_devices(arrays.array_of(tensor)))


ranks.CHANGES.append(_place_again)
