"""Launchers: the other processes of a program, and how JAX connects with them.

A program that runs on several hosts has one process on each of them.
`torchrun`, or whoever starts the processes, says in environment variables how many there are.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

#: The environment variables for the number of a process and the number of processes, by preference.
_NUMBERED = (("RANK", "WORLD_SIZE"), ("GROUP_RANK", "NNODES"), ("NODE_RANK", "NNODES"))
#: By the variable for the number of processes: those without which JAX does not detect this cluster.
_DETECTED_BY_JAX = {
    "SLURM_NTASKS": ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_PROCID", "SLURM_LOCALID"),
    "OMPI_COMM_WORLD_SIZE": ("OMPI_MCA_orte_hnp_uri",),
    "MEGASCALE_NUM_SLICES": ("MEGASCALE_COORDINATOR_ADDRESS",),
}
#: The environment variables of launchers: the number of a rank, and the one on its host; the number of ranks,
#: and of those on one host.
_OF_LAUNCHERS = (
    ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"),
    tuple(f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "LOCAL_RANK", "SIZE", "LOCAL_SIZE")),
)
_KEY = "torchax_compat/coordinator"


class Launched(NamedTuple):
    """The number of this process, and the number of all."""

    process: int
    processes: int


def number(name: str, default: int, *, least: int = 0) -> int:
    """The number in an environment variable.

    Raises:
        ValueError: it is no number, or too small.
    """
    text = os.environ.get(name)
    if not text:
        return default
    if not text.strip().isdecimal() or int(text) < least:
        raise ValueError(f"the environment variable `{name}` is {text!r}, not an integer of at least {least}")
    return int(text)


def launched() -> Launched | None:
    """What the environment variables of `torchrun` say, or None if they are not set.

    Raises:
        RuntimeError: there are several processes, and a variable is missing.
        ValueError: a variable has no number.
    """
    size = next((size for _, size in _NUMBERED if os.environ.get(size)), None)
    if size is None:
        return None
    count = number(size, 1, least=1)
    if count == 1:
        return Launched(0, 1)
    numbered = [index for index, of in _NUMBERED if of == size]
    index = next((name for name in numbered if os.environ.get(name)), None)
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
    if index is None:
        missing.append(" or ".join(numbered))
    if missing:
        raise RuntimeError(
            f"the environment variable `{size}` says that there are {count} processes, but "
            f"{', '.join(missing)} is not set, so that they cannot find each other: start the program with "
            "`torchrun`, or set `MASTER_ADDR`, `MASTER_PORT`, `RANK` and `WORLD_SIZE`; for one process, "
            f"unset `{size}`"
        )
    assert index is not None
    at = number(index, 0)
    if at >= count:
        raise ValueError(f"the environment variable `{index}` is {at}, but there are {count} processes")
    return Launched(at, count)


def connect() -> None:
    """Connect JAX with the other processes, if a launcher has started several."""
    import jax

    if jax.process_count() > 1:  # the program has connected, or this is a host of a TPU slice
        return
    found = launched()
    if found is None:
        if any(
            number(count, 1) > 1 and all(name in os.environ for name in names)
            for count, names in _DETECTED_BY_JAX.items()
        ):
            _start_again()
    elif found.processes > 1:
        _start_again(
            coordinator_address=_coordinator(found), num_processes=found.processes, process_id=found.process
        )


def _start_again(**options: Any) -> None:
    """Start JAX again, as one of several processes: torchax has started it as a single one."""
    import jax
    import jax.extend
    import torch
    import torchax

    jax.extend.backend.clear_backends()
    jax.distributed.initialize(**options)
    atexit.register(_end)
    torchax.default_env().manual_seed(torch.initial_seed() % (1 << 63))  # the former key is on no device


def _end() -> None:
    """End this process after an error; JAX would wait minutes for the others, which wait for this one."""
    if getattr(sys, "last_value", None) is not None:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _coordinator(launched: Launched) -> str:
    """The address for JAX's coordinator; process 0 chooses a port, since `torchrun` uses `MASTER_PORT`."""
    from torch import distributed

    address, port = os.environ["MASTER_ADDR"], number("MASTER_PORT", 0, least=1)
    options = f"rank={launched.process}&world_size={launched.processes}"
    store, *_ = next(distributed.rendezvous(f"env://?{options}"))
    key = f"{_KEY}/{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}"
    if launched.process == 0:
        store.set(key, f"{_own_address(address, port)}:{free_port()}")
    coordinator: str = store.get(key).decode()
    if launched.process == 0:
        _stores.append(store)  # it ends with the last reference to it, when others may not have asked yet
    return coordinator


_stores: list[Any] = []


def _own_address(address: str, port: int) -> str:
    """The address of this host, as others see it that reach an address."""
    with socket.create_connection((address, port), timeout=60) as one:
        own: str = one.getsockname()[0]
    if own.startswith("127.") or own == "::1":
        return address
    return f"[{own}]" if ":" in own else own


def free_port() -> int:
    """A port that no other program uses."""
    with socket.socket() as one:
        one.bind(("", 0))
        port: int = one.getsockname()[1]
        return port


def variables(first: int, own: int, count: int) -> Mapping[str, str]:
    """The environment variables that a launcher would set for the first rank of this process.

    Args:
        first: the number of this rank.
        own: the number of ranks in this process.
        count: the number of ranks in all processes.
    """
    return dict(_variables(first, own, count))


def _variables(first: int, own: int, count: int) -> Iterator[tuple[str, str]]:
    known = next((number(local_rank, 0) for rank, local_rank, *_ in _OF_LAUNCHERS if rank in os.environ), 0)
    for rank, local_rank, size, local_size in _OF_LAUNCHERS:
        if rank != "RANK" and rank not in os.environ:
            continue
        yield rank, str(first)
        yield local_rank, str(own * number(local_rank, known))
        yield size, str(count)
        if local_size == "LOCAL_WORLD_SIZE" or local_size in os.environ:
            yield local_size, str(own * number(local_size, 1, least=1))
    yield "MASTER_ADDR", os.environ.get("MASTER_ADDR") or "localhost"
    yield "MASTER_PORT", os.environ.get("MASTER_PORT") or str(free_port())
