"""Programs of several processes: the originals with gloo, and the fixed ones on as many virtual devices.

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
#: Other ranks than 0 print nothing in these programs, or lines that begin with their device.
_OF_OTHER_RANKS = re.compile(r"\[GPU[1-9]\].*\n")


class Started(NamedTuple):
    """A way to start one process for each device."""

    folder: str
    script: str
    arguments: tuple[str, ...]
    #: What starts the processes, and what each of them calls then.
    spawns: tuple[str, str] = ("", "")


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


def _of_processes(way: Started, count: int, folder: Path) -> str:
    """What rank 0 of the original prints."""
    shutil.copytree(PROGRAMS / way.folder / "before", folder)
    script = folder / way.script
    script.write_text(script.read_text().replace(*way.spawns))
    with socket.socket() as one:
        one.bind(("localhost", 0))
        port = str(one.getsockname()[1])
    command = ["-m", "tpulint.verify.reference", way.script, *way.arguments]
    group = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "WORLD_SIZE": str(count)}
    processes = [
        _process(folder, command, **group, RANK=str(rank), LOCAL_RANK=str(rank)) for rank in range(count)
    ]
    ended = [process.communicate(timeout=100) for process in processes]
    return ended[0][0]


def _of_devices(way: Started, count: int) -> str:
    """What the fixed program prints."""
    flags = f"--xla_force_host_platform_device_count={count}"
    process = _process(PROGRAMS / way.folder / "after", [way.script, *way.arguments], XLA_FLAGS=flags)
    printed, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    assert f"data parallelism over {count} cpu devices: mesh (data={count})" in errors
    return printed


def _are_equal(expected: str, actual: str) -> None:
    assert _NUMBER.sub("#", expected) == _NUMBER.sub("#", actual)
    assert len(expected.splitlines()) >= 5
    assert list(map(float, _NUMBER.findall(expected))) == pytest.approx(
        list(map(float, _NUMBER.findall(actual))), rel=1e-3, abs=2e-3
    )


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", WAYS)
def test_fixed_program_on_devices_prints_what_rank_0_of_processes_prints(
    name: str, count: int, tmp_path: Path
) -> None:
    expected = _OF_OTHER_RANKS.sub("", _of_processes(WAYS[name], count, tmp_path / "before"))
    _are_equal(expected, _of_devices(WAYS[name], count))


@pytest.mark.parametrize("count", [2, 4])
def test_batches_of_data_parallel_are_split_over_devices_with_the_results_of_one(count: int) -> None:
    command = ["-m", "tpulint.verify.reference", "main.py"]
    expected, _ = _process(PROGRAMS / "ema" / "before", command).communicate(timeout=100)
    _are_equal(expected, _of_devices(Started("ema", "main.py", ()), count))
