"""Batches that are sharded over all devices."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
import torch
import torchax
import torchax_compat
from torch import nn
from torchax_compat.distributed import batch_sharding
from torchax_compat.tensor import copies, sharding


@pytest.fixture
def _sharded() -> Iterator[None]:
    copies.place_by(sharding.placed)
    yield
    copies.place_by(None)


@pytest.mark.usefixtures("_sharded")
def test_batches_are_sharded_and_scalars_replicated() -> None:
    count = sharding.mesh().size
    rows, scalar = torchax.default_env().t2j_copy([torch.ones(2 * count, 3), torch.tensor(1.0)])
    assert (sharding.rows(), sharding.replicated()) == (rows.sharding, scalar.sharding)
    assert sharding.rows() == torch.ones(2 * count, 3).to("jax").jax().sharding


@pytest.mark.usefixtures("_sharded")
def test_modules_are_replicated() -> None:
    net = nn.Linear(3, sharding.mesh().size)
    weight, optimizer = net.weight.tolist(), torch.optim.SGD(net.parameters())
    net.to("jax")
    assert weight == net.weight.tolist()
    assert list(net.parameters()) == optimizer.param_groups[0]["params"]
    assert {sharding.replicated()} == {p.jax().sharding for p in net.parameters()}


def test_with_one_device_arrays_are_where_jax_puts_them() -> None:
    torchax_compat.distributed.shard_batches()
    assert isinstance(torch.ones(2, 3).to("jax").jax().sharding, jax.sharding.SingleDeviceSharding)


def test_without_it_arrays_are_on_one_device() -> None:
    assert isinstance(torch.ones(2, 3).to("jax").jax().sharding, jax.sharding.SingleDeviceSharding)


def test_it_needs_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_sharding, "is_enabled", lambda: False)
    with pytest.raises(RuntimeError, match="before `shard_batches"):
        torchax_compat.distributed.shard_batches()


def test_loss_over_four_devices_is_that_of_the_whole_batch() -> None:
    code = """
import torch, torchax_compat
torchax_compat.enable()
torchax_compat.distributed.shard_batches()
net, x = torch.nn.Linear(4, 2), torch.arange(48.0).reshape(12, 4)
due = net(x).square().mean().item()
y = net.to("jax")(x.to("jax"))
assert [(3, 2)] * 4 == [shard.data.shape for shard in y.jax().addressable_shards]
assert [(2, 4)] * 4 == [shard.data.shape for shard in net.weight.jax().addressable_shards]
assert [(7,)] * 4 == [shard.data.shape for shard in torch.ones(7).to("jax").jax().addressable_shards]
assert abs(due - y.square().mean().item()) < 1e-4 * abs(due)
torchax_compat.disable()
torchax_compat.enable()
assert 1 == len(x.to("jax").jax().addressable_shards)
"""
    environment = dict(
        os.environ,
        JAX_PLATFORMS="cpu",
        XLA_FLAGS="--xla_force_host_platform_device_count=4",
        PYTHONPATH=str(Path(torchax_compat.__file__).parents[1]),
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=environment, check=True)
