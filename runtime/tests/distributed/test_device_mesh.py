"""Device meshes are made in one process, without a launcher."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    distributed.destroy_process_group()


@pytest.mark.parametrize("device", ["cuda", "jax", "cpu"])
def test_mesh_of_one_process(device: str) -> None:
    mesh = init_device_mesh(device, [1, 1], mesh_dim_names=["dp", "sp"])
    assert distributed.is_initialized()
    assert (1, 0) == (mesh["sp"].size(), mesh["sp"].get_local_rank())
    assert ("dp", "sp") == mesh.mesh_dim_names
    total = torch.ones(3, device="jax")
    distributed.all_reduce(total, group=mesh["dp"].get_group())
    assert [1, 1, 1] == total.tolist()


def test_mesh_by_its_class_and_of_a_group_that_is_started() -> None:
    first = DeviceMesh("cuda", [0])
    assert 1 == distributed.get_world_size(first.get_group())
    second = DeviceMesh(device_type="jax", mesh=torch.arange(1), mesh_dim_names=("all",))
    assert 0 == second.get_rank()


def test_more_processes_than_there_are() -> None:
    init_device_mesh("cuda", (1,))
    with pytest.raises(RuntimeError, match="bigger than default world size"):
        init_device_mesh("cuda", (2, 2))
