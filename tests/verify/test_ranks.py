"""Programs of several processes: the originals with gloo, and the fixed ones on as many virtual devices.

The fixed ones run as one process, and as two, as on two hosts with half of the devices each.

Rank 0 of the original prints what the fixed program prints: losses, reduced metrics, numbers of steps and
sums of the trained parameters.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "fixtures" / "programs"
_NUMBER = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")
#: Other ranks than 0 print nothing in these programs, or lines that begin with their device. Threads of gloo
#: print lines, too, and these within each other.
_OF_OTHERS = re.compile(r"^\[GPU[1-9]\].*\n|^.*(?:\[Gloo\]|connected peer ranks).*\n|^\n", re.MULTILINE)


class Started(NamedTuple):
    """A way to start one process for each device."""

    folder: str
    script: str
    #: With the number of processes that are started, and the number of this one.
    arguments: tuple[str, ...]
    #: What starts the processes, and what each of them calls then.
    spawns: tuple[str, str] = ("", "")

    def command(self, process: int, processes: int) -> list[str]:
        """The script and its arguments."""
        arguments = [one.format(process=process, processes=processes) for one in self.arguments]
        return [self.script, *arguments]


WAYS = {
    "torchrun": Started("distributed", "multigpu_torchrun.py", ("3", "2")),
    "spawn": Started(
        "distributed_spawn",
        "main.py",
        ("--epochs", "2"),
        (
            "mp.spawn(train, args=(world_size, args), nprocs=world_size, join=True)",
            'train(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), args)',
        ),
    ),
    "env": Started("distributed_env", "main.py", ()),
    "metrics": Started("distributed_metrics", "main.py", ()),
    "fsdp": Started("distributed_fsdp", "main.py", ()),
    "plan": Started("distributed_plan", "main.py", ("--tp=2",)),
    "nodes": Started("distributed_nodes", "main.py", ("--nodes={processes}", "--node={process}")),
}


def _process(folder: Path, command: list[str], **variables: str) -> subprocess.Popen[str]:
    paths = [ROOT, ROOT / "rules", ROOT / "runtime" / "src"]
    plain = {
        "JAX_PLATFORMS": "cpu",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
    }
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", *command],
        cwd=folder,
        env={**os.environ, **plain, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _of_processes(way: Started, count: int, hosts: int, folder: Path) -> list[str]:
    """What the ranks of the original print."""
    shutil.copytree(PROGRAMS / way.folder / "before", folder)
    script = folder / way.script
    script.write_text(script.read_text().replace(*way.spawns))
    reference = ["-m", "tpulint.verify.reference"]
    processes = [
        _process(folder, [*reference, *way.command(rank, count)], **one)
        for rank, one in enumerate(_group(count, hosts))
    ]
    return [_OF_OTHERS.sub("", process.communicate(timeout=300)[0]) for process in processes]


def _group(size: int, hosts: int) -> list[dict[str, str]]:
    """The environment variables of the processes of a group, as on one or several hosts."""
    with socket.socket() as one:
        one.bind(("localhost", 0))
        port = str(one.getsockname()[1])
    group = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "WORLD_SIZE": str(size)}
    return [{**group, "RANK": str(rank), "LOCAL_RANK": str(rank % (size // hosts))} for rank in range(size)]


def _of_devices(way: Started, count: int) -> str:
    """What the fixed program prints as one process."""
    process = _process(PROGRAMS / way.folder / "after", way.command(0, 1), XLA_FLAGS=_devices(count))
    return _printed(count, process)[0]


def _of_hosts(way: Started, count: int, *, by_torchrun: bool) -> list[str]:
    """What the fixed program prints as two processes, each of which has half of the devices."""
    processes = []
    for process, variables in enumerate(_group(2, 2)):
        command = way.command(process, 2)
        if by_torchrun:
            address, port, size, rank, _ = variables.values()
            options = f"--nnodes={size} --node_rank={rank} --master_addr={address} --master_port={port}"
            command = ["-m", "torch.distributed.run", *options.split(), "--nproc_per_node=1", *command]
            variables = {}
        variables |= {"XLA_FLAGS": _devices(count // 2)}
        processes.append(_process(PROGRAMS / way.folder / "after", command, **variables))
    return _printed(count, *processes)


def _devices(count: int) -> str:
    return f"--xla_force_host_platform_device_count={count}"


def _printed(count: int, *processes: subprocess.Popen[str]) -> list[str]:
    """What the processes of a fixed program print; the first one says how many devices there are."""
    ended = [process.communicate(timeout=300) for process in processes]
    for process, (_, errors) in zip(processes, ended, strict=True):
        assert process.returncode == 0, errors
    assert f"data parallelism over {count} cpu devices: mesh (data={count})" in ended[0][1]
    return [_OF_OTHERS.sub("", printed) for printed, _ in ended]


def _are_equal(expected: str, actual: str) -> None:
    assert _NUMBER.sub("#", expected) == _NUMBER.sub("#", actual)
    assert list(map(float, _NUMBER.findall(expected))) == pytest.approx(
        list(map(float, _NUMBER.findall(actual))), rel=1e-3, abs=2e-3
    )


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", WAYS)
def test_fixed_program_on_devices_prints_what_rank_0_of_processes_prints(
    name: str, count: int, tmp_path: Path
) -> None:
    expected = _of_processes(WAYS[name], count, 1, tmp_path / "before")
    _are_equal(expected[0], _of_devices(WAYS[name], count))
    assert len(expected[0].splitlines()) >= 5


@pytest.mark.parametrize("name", ["torchrun", "env", "metrics", "fsdp", "plan", "nodes"])
def test_fixed_program_on_two_hosts_prints_what_the_first_ranks_of_hosts_print(
    name: str, tmp_path: Path
) -> None:
    expected = _of_processes(WAYS[name], 4, 2, tmp_path / "before")
    first, second = _of_hosts(WAYS[name], 4, by_torchrun=name == "torchrun")
    _are_equal(expected[0], first)
    _are_equal(expected[2], second)
    assert len(expected[0].splitlines()) >= 5


@pytest.mark.parametrize("count", [2, 4])
def test_batches_of_data_parallel_are_split_over_devices_with_the_results_of_one(count: int) -> None:
    command = ["-m", "tpulint.verify.reference", "main.py"]
    expected, _ = _process(PROGRAMS / "ema" / "before", command).communicate(timeout=300)
    _are_equal(expected, _of_devices(Started("ema", "main.py", ()), count))
