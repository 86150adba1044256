"""Programs of several processes give the same results as fewer processes with a rank for each device.

The originals run with gloo, one process per rank.
"""

from __future__ import annotations

import functools
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torchax_compat

PROGRAMS = Path(__file__).parent / "programs"
NAMES = (
    *("metrics", "collectives", "accumulated", "by_hand", "different_shapes"),
    *("sharded", "replicated", "joined"),
)
_COLLECTIVE = re.compile(r" (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)\(")
_NUMBER = re.compile(r"-?\d+\.\d+|-?\d+")


#: Programs that lay out the devices in their own way, each of which runs alone.
ALONE = ("tensor_parallel",)


def _start(names: tuple[str, ...], **variables: str) -> subprocess.Popen[str]:
    source = str(Path(torchax_compat.__file__).parents[1])
    plain = {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", "PYTHONPATH": source}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "run.py", *names],
        cwd=PROGRAMS,
        env={**os.environ, **plain, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _ended(process: subprocess.Popen[str]) -> tuple[dict[str, str], str]:
    printed, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return json.loads(printed.splitlines()[-1]), errors


def _group(size: int) -> list[dict[str, str]]:
    """The environment variables of the processes of a group."""
    with socket.socket() as one:
        one.bind(("localhost", 0))
        port = str(one.getsockname()[1])
    group = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "WORLD_SIZE": str(size)}
    return [{**group, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(size)]


@functools.cache
def _of_processes(names: tuple[str, ...], count: int) -> dict[str, str]:
    """What rank 0 of several processes printed."""
    processes = [_start(names, **one, PROGRAM_DEVICE="cpu") for one in _group(count)]
    ended = [_ended(process)[0] for process in processes]
    return ended[0]


@functools.cache
def _of_devices(names: tuple[str, ...], count: int, processes: int = 1) -> tuple[dict[str, str], str]:
    """What process 0 with several devices printed, and wrote to stderr; other processes print nothing."""
    flags = f"--xla_force_host_platform_device_count={count // processes}"
    groups = _group(processes) if processes > 1 else [{}]
    started = [_start(names, **one, XLA_FLAGS=flags, PROGRAM_DEVICE="jax") for one in groups]
    first, *others = [_ended(process) for process in started]
    assert all(not any(printed.values()) for printed, _ in others)
    return first


@pytest.mark.parametrize(("count", "processes"), [(2, 1), (4, 1), (4, 2), (2, 2)])
@pytest.mark.parametrize("name", NAMES)
def test_devices_compute_what_processes_compute(name: str, count: int, processes: int) -> None:
    _are_equal(NAMES, name, count, processes)


@pytest.mark.parametrize(("count", "processes"), [(2, 1), (4, 1), (4, 2)])
@pytest.mark.parametrize("name", ALONE)
def test_devices_with_parts_of_parameters_compute_what_processes_compute(
    name: str, count: int, processes: int
) -> None:
    _are_equal((name,), name, count, processes)


def _are_equal(names: tuple[str, ...], name: str, count: int, processes: int) -> None:
    expected, actual = _of_processes(names, count)[name], _of_devices(names, count, processes)[0][name]
    assert expected
    assert _NUMBER.sub("#", expected) == _NUMBER.sub("#", actual)
    assert list(map(float, _NUMBER.findall(expected))) == pytest.approx(
        list(map(float, _NUMBER.findall(actual))), rel=2e-4, abs=2e-4
    )


def test_meshes_and_shardings_are_reported_on_stderr() -> None:
    expected = (
        "torchax_compat: data parallelism over 4 cpu devices: mesh (data=4), because one rank for each "
        "device of this host; each device computes the batch of one rank, parameters and "
        "optimizer state are replicated"
    )
    sharded = (
        "torchax_compat: parameters with at least 4096 elements are sharded over data=4, along their longest "
        "dimension that the number of devices divides"
    )
    same = (
        "torchax_compat: the batch of `DistributedDataParallel` is the same on all 4 ranks, so that each "
        "device computes the same: use a `DataLoader` with a `DistributedSampler`"
    )
    lines = _of_devices(NAMES, 4)[1].splitlines()
    assert [expected, sharded, same] == [line for line in lines if line.startswith("torchax_compat: ")]


def test_gradients_are_reduced_at_once_and_nothing_else_is_communicated(tmp_path: Path) -> None:
    code = """
import torch, torchax_compat
torchax_compat.enable()
torchax_compat.distributed.one_rank_per_device()
from torchax_compat.ranks.local_tensor import LocalTensor
net = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).to("jax")
@torchax_compat.differentiable
def compute_loss(net, x):
    return net(x).square().mean()
optimizer = torchax_compat.compile_optimizer(torch.optim.AdamW(net.parameters()))
for _ in range(3):
    x = LocalTensor(parts=[torch.randn(5, 6) for _ in range(4)]).to("jax")
    compute_loss(net, x).backward()
    optimizer.step()
assert [(1, 5, 6)] * 4 == [shard.data.shape for shard in x.local_whole().jax().addressable_shards]
assert all(parameter.jax().sharding.is_fully_replicated for parameter in net.parameters())
"""
    flags = f"--xla_force_host_platform_device_count=4 --xla_dump_to={tmp_path} --xla_dump_hlo_as_text"
    source = str(Path(torchax_compat.__file__).parents[1])
    variables = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, "PYTHONPATH": source}
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], env={**os.environ, **variables}, check=True)
    programs = tmp_path.glob("*.cpu_after_optimizations.txt")
    found = [_COLLECTIVE.findall(program.read_text()) for program in programs]
    assert {("all-reduce",)} == {tuple(collectives) for collectives in found if collectives}


_SYNCHRONIZED = """
import torch, torchax_compat
from torch import nn
torch.manual_seed(0)
x, momentum = torch.randn(12, 5, 3), None
plain = nn.BatchNorm1d(5, momentum=momentum)
nn.init.normal_(plain.weight)
plain(x).pow(3).mean().backward()
torchax_compat.enable()
torchax_compat.distributed.one_rank_per_device()
torch.distributed.init_process_group("nccl")
from torchax_compat import ranks
from torchax_compat.ranks.local_tensor import LocalTensor
shared = nn.BatchNorm1d(5, momentum=momentum)
shared.load_state_dict({**plain.state_dict(), **nn.BatchNorm1d(5).state_dict(), "weight": plain.weight})
shared = nn.parallel.DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(shared).to("jax"))
@torchax_compat.differentiable
def compute_loss(net, x):
    return net(x).pow(3).mean()
parts = x.chunk(ranks.world())
compute_loss(shared, LocalTensor(parts=[parts[rank] for rank in ranks.own()]).to("jax")).backward()
for name, value in plain.state_dict().items():
    torch.testing.assert_close(shared.module.state_dict()[name].cpu(), value, check_dtype=False)
torch.testing.assert_close(shared.module.weight.grad.cpu(), plain.weight.grad)
"""


@pytest.mark.parametrize(("devices", "processes"), [(4, 1), (2, 2), (1, 2)])
def test_synchronized_statistics_are_those_of_all_ranks(devices: int, processes: int) -> None:
    groups = _group(processes) if processes > 1 else [{}]
    started = [_of_code(_SYNCHRONIZED, devices, group) for group in groups]
    errors = [process.communicate(timeout=300)[1] for process in started]
    assert [0] * processes == [process.returncode for process in started], errors


def _of_code(code: str, devices: int, variables: dict[str, str]) -> subprocess.Popen[str]:
    flags = f"--xla_force_host_platform_device_count={devices}"
    plain = {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(Path(torchax_compat.__file__).parents[1])}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, **plain, "XLA_FLAGS": flags, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_error_of_a_process_ends_all_of_them_at_once() -> None:
    code = """
import torch, torchax_compat
torchax_compat.enable()
torchax_compat.distributed.one_rank_per_device()
from torch import distributed
distributed.init_process_group("nccl")
distributed.barrier()
if distributed.get_rank() > 0:
    raise ValueError("not on this host")
distributed.barrier()
"""
    processes = [_of_code(code, 1, group) for group in _group(2)]
    errors = [process.communicate(timeout=300)[1] for process in processes]
    assert [1, 1] == [process.returncode for process in processes]
    assert "ValueError: not on this host" in errors[1]


_ONE_PROGRAM = """
import os, torch, torchax_compat
from torch import nn
torchax_compat.enable()
torchax_compat.distributed.one_rank_per_device()
from torchax_compat import ranks
from torchax_compat.autograd import deferred_step
from torchax_compat.ranks.local_tensor import LocalTensor
torch.distributed.init_process_group("nccl")
whole_steps = []
run = deferred_step.DeferredStep.run
def noted(self, update):
    is_done = run(self, update)
    whole_steps[-1] |= is_done and update is not None
    return is_done
deferred_step.DeferredStep.run = noted
only_here = os.environ.get("READS") if ranks.process() == 0 else None

@torchax_compat.differentiable
def compute_loss(net, x):
    return net(x).square().sum(1).mean()

def trained(is_recorded):
    deferred_step.Plan.is_possible = is_recorded
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16, bias=False), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 3))
    net = nn.parallel.DistributedDataParallel(net.to("jax"))
    optimizer = torchax_compat.compile_optimizer(torch.optim.AdamW(net.parameters(), lr=0.05))
    losses = []
    for step in range(12):
        whole_steps.append(False)
        is_read = only_here if step == 8 else None
        optimizer.zero_grad()
        for part in range(2):
            parts = [torch.randn(8, 6) for _ in range(4)]
            if is_read == "shorter batch":
                parts = [one[:4] for one in parts]
            x = LocalTensor(parts=[parts[rank] for rank in ranks.own()]).to("jax")
            loss = compute_loss(net, x)
            if is_read == "loss before":
                loss.item()
            loss.backward()
            if is_read == "loss":
                loss.item()
        if is_read == "gradient":
            net.module[0].weight.grad.sum().item()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        losses += [*getattr(loss.item(), "locals", [loss.item()]), norm.item()]
    return losses, [p.detach().cpu() for p in net.state_dict().values()]

apart, together = trained(False), trained(True)
torch.testing.assert_close(apart, together, rtol=2e-4, atol=2e-5)
if ranks.process() == 0:
    print("whole steps:", whole_steps[-4:].count(True))
"""


def _whole_steps(devices: int, processes: int, **variables: str) -> int:
    """How many of the last four steps were one program."""
    groups = _group(processes) if processes > 1 else [{}]
    started = [_of_code(_ONE_PROGRAM, devices, {**one, **variables}) for one in groups]
    ended = [process.communicate(timeout=300) for process in started]
    assert [0] * processes == [process.returncode for process in started], ended
    return int(ended[0][0].rpartition("whole steps: ")[2])


@pytest.mark.parametrize(("devices", "processes"), [(4, 1), (2, 2), (1, 2)])
def test_step_of_all_ranks_is_one_program_with_the_same_results(devices: int, processes: int) -> None:
    assert _whole_steps(devices, processes) == 4


@pytest.mark.parametrize("reads", ["loss before", "loss", "gradient", "shorter batch"])
def test_processes_compute_a_step_apart_if_one_of_them_does(reads: str) -> None:
    assert _whole_steps(2, 2, READS=reads) == 3
