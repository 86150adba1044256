"""Ways to start two processes, with two devices each: all find each other, as ranks 0 to 3."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import torchax_compat

_SCRIPT = str(Path(__file__).parent / "programs" / "started.py")
_TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
_ONE_HOST = [["0", "0", "4"], ["0", "0", "4"], ["2", "2", "4"], ["2", "2", "4"]]
_TWO_HOSTS = [["0", "0", "4"], ["0", "0", "4"], ["2", "0", "4"], ["2", "0", "4"]]


def _printed(*commands: list[str], variables: list[dict[str, str]] | None = None) -> str:
    """What the processes of some commands print, without the lines of gloo."""
    plain = {
        "JAX_PLATFORMS": "cpu",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(torchax_compat.__file__).parents[1]),
        "PYTHONWARNINGS": "ignore",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    }
    started = [
        subprocess.Popen(
            command,
            env={**os.environ, **plain, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command, own in zip(commands, variables or [{}] * len(commands), strict=True)
    ]
    ended = [process.communicate(timeout=300) for process in started]
    assert [0] * len(started) == [process.returncode for process in started], ended
    return "".join(line for printed, _ in ended for line in _lines(printed))


def _lines(printed: str) -> Iterator[str]:
    return (line for line in printed.splitlines() if "[Gloo]" not in line and "peer ranks" not in line)


def _port() -> str:
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return str(one.getsockname()[1])


def test_by_torchrun_on_one_host() -> None:
    assert str(_ONE_HOST) == _printed([*_TORCHRUN, "--standalone", "--nproc_per_node=2", _SCRIPT])


def test_by_torchrun_on_two_hosts_that_meet_at_an_address() -> None:
    options = ["--nnodes=2", "--nproc_per_node=1", "--rdzv_backend=c10d", "--rdzv_id=test"]
    command = [*_TORCHRUN, *options, f"--rdzv_endpoint=localhost:{_port()}", _SCRIPT]
    assert str(_TWO_HOSTS) == _printed(command, command)


def test_by_variables_for_hosts() -> None:
    shared = {"MASTER_ADDR": "localhost", "MASTER_PORT": _port(), "NNODES": "2"}
    variables = [{**shared, "NODE_RANK": str(process)} for process in range(2)]
    command = [sys.executable, _SCRIPT]
    assert str(_TWO_HOSTS) == _printed(command, command, variables=variables)


def test_by_slurm_which_jax_detects() -> None:
    shared = {"SLURM_JOB_ID": _port(), "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2"}
    variables = [{**shared, "SLURM_PROCID": str(task), "SLURM_LOCALID": str(task)} for task in range(2)]
    command = [sys.executable, _SCRIPT]
    assert str(_ONE_HOST) == _printed(command, command, variables=variables)


def test_by_the_program_itself() -> None:
    address = f"localhost:{_port()}"
    commands = [[sys.executable, _SCRIPT, address, str(process)] for process in range(2)]
    assert str(_TWO_HOSTS) == _printed(*commands)
