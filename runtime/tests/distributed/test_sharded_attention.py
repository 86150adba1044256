"""Splash attention of samples and heads that are sharded over devices gives what PyTorch's attention gives.

The program that trains with it runs on virtual devices, where the kernel is interpreted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torchax_compat

_PROGRAM = """
import functools, json, sys
import jax, torch, torchax_compat
from torch import nn
from torchax_compat.ops import attention, splash_attention

way, is_splash = sys.argv[1:]
torchax_compat.enable()
shapes = []
if is_splash == "splash":
    kernel = splash_attention._kernel

    def attended(query, key, is_causal, interprets):
        shapes.append(query.shape)
        return kernel(query, key, is_causal, True)

    splash_attention._kernel = attended
    splash_attention.is_used = lambda q, k, v, dropout, has_groups: q.ndim == 4

if way == "shard_batches":
    torchax_compat.distributed.shard_batches()
elif way == "rules":
    torchax_compat.distributed.shard_batches()
    rules = {r"[qkv]\\.weight": ("model", None), r"o\\.weight": (None, "model")}
    torchax_compat.distributed.shard_by_name(rules, devices=2)
elif way != "alone":
    torchax_compat.distributed.one_rank_per_device()

from torch import distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(64, 64, bias=False) for _ in range(3))
        self.o = nn.Linear(64, 1)

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (4, 16)).transpose(1, 2) for p in (self.q, self.k, self.v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(mixed.transpose(1, 2).flatten(2))


@torchax_compat.differentiable
def compute_loss(model, x):
    return model(x).square().mean()


torch.manual_seed(0)
model = Attention()
data = torch.utils.data.TensorDataset(torch.randn(16, 128, 64))
sampler, size = None, 4
if way in ("ddp", "fsdp", "plan"):
    dist.init_process_group("nccl")
    world = dist.get_world_size()
    if way == "plan":
        mesh = dist.init_device_mesh("cuda", (world // 2, 2), mesh_dim_names=("dp", "tp"))
        plan = {**dict.fromkeys("qkv", ColwiseParallel()), "o": RowwiseParallel()}
        model = parallelize_module(model.to("jax"), mesh["tp"], plan)
        world //= 2
        if world > 1:
            model = fully_shard(model, mesh=mesh["dp"]) or model
    elif way == "fsdp":
        model = fully_shard(model.to("jax")) or model
    else:
        model = DistributedDataParallel(model.to("jax"))
    size = 4 // world
    rank = mesh["dp"].get_local_rank() if way == "plan" else dist.get_rank()
    sampler = torch.utils.data.DistributedSampler(data, world, rank, shuffle=False)
else:
    model = model.to("jax")
optimizer = torchax_compat.compile_optimizer(torch.optim.SGD(model.parameters(), lr=0.5))
for (x,) in torch.utils.data.DataLoader(data, batch_size=size, sampler=sampler):
    loss = compute_loss(model, x.to("jax"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if dist.is_initialized():
        dist.all_reduce(loss, op=dist.ReduceOp.AVG)
    print(json.dumps(loss.item()))
print(json.dumps([value.square().sum().item() for value in model.state_dict().values()]))
print(json.dumps(sorted(set(shapes))))
"""


def _printed(way: str, devices: int, attention: str) -> list[object]:
    flags = f"--xla_force_host_platform_device_count={devices}"
    source = str(Path(torchax_compat.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, way, attention],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def expected() -> list[object]:
    """The losses and sums of squares of a training with PyTorch's attention on one device."""
    *printed, shapes = _printed("alone", 1, "usual")
    assert shapes == []
    return printed


@pytest.mark.parametrize(
    ("way", "devices", "shape"),
    [
        ("alone", 4, [4, 4, 128, 16]),
        ("shard_batches", 2, [2, 4, 128, 16]),
        ("shard_batches", 4, [1, 4, 128, 16]),
        ("rules", 4, [2, 2, 128, 16]),
        ("ddp", 2, [2, 4, 128, 16]),
        ("ddp", 4, [1, 4, 128, 16]),
        ("fsdp", 2, [2, 4, 128, 16]),
        ("fsdp", 4, [1, 4, 128, 16]),
        ("plan", 2, [4, 2, 128, 16]),
        ("plan", 4, [2, 2, 128, 16]),
    ],
)
def test_each_device_computes_its_samples_and_heads(
    way: str, devices: int, shape: list[int], expected: list[object]
) -> None:
    *printed, shapes = _printed(way, devices, "splash")
    assert [shape] == shapes
    for before, now in zip(expected, printed, strict=True):
        assert before == pytest.approx(now, rel=1e-5)
