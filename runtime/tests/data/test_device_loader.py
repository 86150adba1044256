"""`DeviceLoader`: batches on the device, and the loader's own attributes."""

from __future__ import annotations

import copy
from collections import UserDict
from typing import Any

import jax
import numpy as np
import pytest
import torch
from jax.sharding import NamedSharding, PartitionSpec
from torch import nn
from torch.utils.data import DataLoader
from torchax_compat import compile_optimizer, differentiable
from torchax_compat.data import DeviceLoader
from torchax_compat.tensor import copies


def test_tensors_of_a_batch_are_moved_at_any_depth() -> None:
    batches = [{"x": [torch.ones(2), (torch.arange(3), "text")]}]
    (moved,) = DeviceLoader(batches)
    x, (y, text) = moved["x"]
    assert ("jax", "jax", "text") == (x.device.type, y.device.type, text)
    assert batches[0]["x"][0].device.type == "cpu"


def test_a_batch_of_a_tokenizer_keeps_its_type() -> None:
    class Encoding(UserDict[str, Any]):
        def of(self, name: str) -> Any:
            return self.data[name]

    batch = Encoding(ids=torch.arange(4))
    (moved,) = DeviceLoader([batch])
    assert isinstance(moved, Encoding)
    assert moved.of("ids").device.type == "jax"
    assert batch.of("ids").device.type == "cpu"


def test_it_is_iterated_over_again_and_has_the_attributes_of_the_loader() -> None:
    loader = DataLoader(torch.arange(10.0), batch_size=4)
    moving = DeviceLoader(loader, "jax")
    assert [4, 4, 2] == [len(batch) for batch in moving]
    assert [0.0, 4.0, 8.0] == [batch[0].item() for batch in moving]
    assert (3, 4, loader.dataset) == (len(moving), moving.batch_size, moving.dataset)
    assert 3 == len(copy.copy(moving))


def test_tensors_with_the_dimensions_of_a_sharding_are_sharded() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("data",))
    sharding = NamedSharding(mesh, PartitionSpec("data", None))
    ((x, y),) = DeviceLoader([(torch.ones(4, 2), torch.ones(4))], "jax", sharding)
    assert sharding == x.jax().sharding
    assert sharding != y.jax().sharding


def test_the_next_batch_is_put_on_the_device_while_a_step_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that runs long is not waited for: neither by the optimizer, nor by the next batch."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 1)).to("jax")
    optimizer = compile_optimizer(torch.optim.SGD(net.parameters(), lr=0.01))

    @differentiable
    def compute_loss(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
        for _ in range(8):
            x = net[1](net[0](x))
        return net[2](x).square().mean()

    losses: list[torch.Tensor] = []
    are_computed: list[bool] = []
    plain = copies.to_device

    def to_device(tensor: torch.Tensor) -> Any:
        are_computed.extend(loss.jax().is_ready() for loss in losses[-1:])
        return plain(tensor)

    monkeypatch.setattr(copies, "to_device", to_device)
    for x in DeviceLoader([torch.randn(2048, 512) for _ in range(8)]):
        loss = compute_loss(net, x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    assert [False] * 3 == are_computed[-3:]
