"""Splash attention of samples and heads that are sharded over devices gives what PyTorch's attention gives.

The program that trains with it runs on virtual devices, where the kernel is interpreted.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torchax_compat

_SOURCE = str(Path(torchax_compat.__file__).parents[1])
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
losses = []
for (x,) in torch.utils.data.DataLoader(data, batch_size=size, sampler=sampler):
    loss = compute_loss(model, x.to("jax"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if dist.is_initialized():
        dist.all_reduce(loss, op=dist.ReduceOp.AVG)
    losses.append(loss.item())
sums = [value.square().sum().item() for value in model.state_dict().values()]
print(json.dumps([losses, sums, sorted(set(shapes))]))
"""
_LAUNCHER = ("torch.distributed.run", "--standalone", "--local-ranks-filter=0", "--no-python")


def _printed(way: str, devices: int, processes: int, attention: str) -> list[list[object]]:
    """The losses, the sums of squares of the parameters, and the shapes that a device computes."""
    command = [sys.executable, "-c", _PROGRAM, way, attention]
    if processes > 1:
        command = [sys.executable, "-m", *_LAUNCHER, f"--nproc-per-node={processes}", *command]
    flags = f"--xla_force_host_platform_device_count={devices // processes}"
    done = subprocess.run(
        command,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, "PYTHONPATH": _SOURCE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[list[object]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def expected() -> list[list[object]]:
    """What a training with PyTorch's attention on one device prints."""
    return _printed("alone", 1, 1, "usual")


@pytest.mark.parametrize(
    ("way", "devices", "processes", "shape"),
    [
        ("alone", 4, 1, [4, 4, 128, 16]),
        ("shard_batches", 2, 1, [2, 4, 128, 16]),
        ("shard_batches", 4, 1, [1, 4, 128, 16]),
        ("rules", 4, 1, [2, 2, 128, 16]),
        ("ddp", 2, 1, [2, 4, 128, 16]),
        ("ddp", 4, 1, [1, 4, 128, 16]),
        ("ddp", 4, 2, [1, 4, 128, 16]),
        ("fsdp", 2, 1, [2, 4, 128, 16]),
        ("fsdp", 4, 1, [1, 4, 128, 16]),
        ("fsdp", 4, 2, [1, 4, 128, 16]),
        ("plan", 2, 1, [4, 2, 128, 16]),
        ("plan", 4, 1, [2, 2, 128, 16]),
    ],
)
def test_each_device_computes_its_samples_and_heads(
    way: str, devices: int, processes: int, shape: list[int], expected: list[list[object]]
) -> None:
    losses, sums, none = expected
    assert none == []
    actual = _printed(way, devices, processes, "splash")
    assert [pytest.approx(losses, rel=1e-5), pytest.approx(sums, rel=1e-5), [shape]] == actual


_COMPILATION = """
import json, os
import jax, numpy as np, torch, torchax_compat
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from torchax_compat.ops import splash_attention
from torchax_compat.tensor import arrays, copies, sharding

torchax_compat.enable()
devices = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x4").devices
mesh = Mesh(np.array(devices).reshape(2, 4), ("data", "model"))
jax.default_backend, sharding.mesh = lambda: "tpu", lambda: mesh
copies.place_by(sharding.on_all_devices)


def loss(*given):
    out = torch.nn.functional.scaled_dot_product_attention(*map(arrays.tensor, given), is_causal=True)
    return jax.numpy.square(arrays.array_of(out)).sum()


placed = NamedSharding(mesh, PartitionSpec("data", "model"))
x = jax.ShapeDtypeStruct((4, 8, 8192, 64), "bfloat16", sharding=placed)
found = []
for least in ("", "4096"):
    os.environ[splash_attention.VARIABLE] = least
    compiled = jax.jit(jax.grad(lambda *given: loss(*given), argnums=(0, 1, 2))).lower(x, x, x).compile()
    text = compiled.as_text()
    kernels = sum("tpu_custom_call" in line for line in text.splitlines())
    found.append((compiled.memory_analysis().temp_size_in_bytes, kernels, "all-gather" in text))
print(json.dumps(found))
"""


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="libtpu is not installed")
def test_tpu_compiler_accepts_the_kernel_on_a_mesh_and_needs_less_memory() -> None:
    variables = {"TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _COMPILATION],
        env={**os.environ, **variables, "JAX_PLATFORMS": "cpu", "PYTHONPATH": _SOURCE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (usual, *_), (splash, kernels, is_gathered) = json.loads(done.stdout.splitlines()[-1])
    assert (3, False) == (kernels, is_gathered)  # a kernel for the results, and two for the gradients
    assert splash * 4 < usual
