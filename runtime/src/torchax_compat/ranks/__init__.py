"""Ranks in one process: each device of the host stands for one process of the original program.

A program that was started as one process per GPU, with `torchrun` or `torch.multiprocessing.spawn`, runs as
one process that drives all devices.
The devices are a mesh of one dimension, and each device computes what one rank computed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator

from .. import environment

#: The name of the dimension of the mesh, over which batches are sharded.
AXIS = "data"
#: The environment variable that limits the number of ranks.
VARIABLE = "TORCHAX_COMPAT_RANKS"

_logger = logging.getLogger(__name__.rpartition(".")[0])
_count = 0
_contexts: list[bool] = []
#: Called by `one_rank_per_device()`, and the functions that they returned, which take back what they did.
STARTS: list[Callable[[], Callable[[], None]]] = []
_reported: set[str] = set()
_ends: list[Callable[[], None]] = []


def one_rank_per_device() -> None:
    """Make each device of this host a rank of `torch.distributed`; all ranks are in this process.

    With N devices, the program computes what it computed with `torchrun --nproc_per_node=N`:

    - `init_process_group()` starts a group of N ranks. `get_world_size()` is N, and `get_rank()` is 0.
    - A `DataLoader` with a `DistributedSampler` yields the batches of all ranks. Tensors in them are sharded
      over the devices: device i has the batch of rank i. They have the shape of one rank's batch.
    - Parameters, optimizer state and all other tensors are replicated.
    - Gradients are averaged over the ranks, as by `DistributedDataParallel`.
    - Collectives, such as `all_reduce`, combine the values of all ranks.
    - Values that a program reads, prints or saves, as by `loss.item()`, are those of rank 0. Sums and other
      arithmetic of numbers that it reads keep the values of all ranks for later collectives.

    Call it after `enable()`, and start the program as a single process, without `torchrun`.
    The environment variables `RANK`, `LOCAL_RANK` and `WORLD_SIZE` are set for the program.
    The environment variable `TORCHAX_COMPAT_RANKS` sets a smaller number of ranks.

    Raises:
        RuntimeError: the runtime is not enabled, or a launcher has started several processes.

    Example:
        >>> import torch, torchax_compat
        >>> torchax_compat.enable()
        >>> torchax_compat.distributed.one_rank_per_device()
        >>> torch.distributed.init_process_group("nccl")
        >>> torch.distributed.get_rank()
        0
        >>> torch.distributed.destroy_process_group()
        >>> torchax_compat.disable()
    """
    global _count
    if not environment.is_enabled():
        raise RuntimeError("call `torchax_compat.enable()` before `one_rank_per_device()`")
    if int(os.environ.get("WORLD_SIZE") or 1) > 1 and not _count:
        raise RuntimeError(
            f"a launcher started {os.environ['WORLD_SIZE']} processes, but one process drives all devices of "
            "this host: start the program with `python`, or with `torchrun --nproc_per_node=1`"
        )
    import jax

    from ..tensor import copies, sharding

    available = jax.local_device_count()
    _count = min(available, int(os.environ.get(VARIABLE) or available))
    sharding.use(_count)
    copies.place_by(sharding.on_all_devices)
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(_count), LOCAL_WORLD_SIZE=str(_count))
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", str(_free_port()))
    if not _ends:
        _ends.extend(start() for start in STARTS)
    _report(available)


def _report(available: int) -> None:
    import jax

    platform = jax.default_backend()
    if _count == 1:
        why = "this host has one device" if available == 1 else f"{VARIABLE} is 1"
        text = f"data parallelism over 1 {platform} device, because {why}"
    else:
        why = "one rank for each device of this host"
        if _count < available:
            why = f"{VARIABLE} is {_count}, of {available} devices"
        text = (
            f"data parallelism over {_count} {platform} devices: mesh ({AXIS}={_count}), because {why}; each "
            "device computes the batch of one rank, parameters and optimizer state are replicated"
        )
    report_once(text)


def report_once(text: str) -> None:
    """Log a text, or print it on stderr if the program has not configured the logger."""
    if text in _reported:
        return
    _reported.add(text)
    if _logger.isEnabledFor(logging.INFO):
        _logger.info(text)
    else:
        print(f"torchax_compat: {text}", file=sys.stderr)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("localhost", 0))
        port: int = one.getsockname()[1]
        return port


@contextlib.contextmanager
def of_one(*, are_mapped: bool = False) -> Iterator[None]:
    """Context in which tensors are those of one rank.

    Args:
        are_mapped: whether JAX maps the code over the ranks, so that collectives over `AXIS` work.
    """
    _contexts.append(are_mapped)
    try:
        yield
    finally:
        _contexts.pop()


def are_of_one() -> bool:
    """Whether tensors are those of one rank."""
    return bool(_contexts)


def are_mapped() -> bool:
    """Whether JAX maps the running code over the ranks."""
    return bool(_contexts) and _contexts[-1]


def are_on() -> bool:
    """Whether each device stands for a rank, and there are several."""
    return _count > 1


def are_counted() -> bool:
    """Whether `one_rank_per_device()` was called, on however many devices."""
    return _count > 0


def count() -> int:
    """The number of ranks in this process."""
    return max(_count, 1)


def forget() -> None:
    """End the effect of `one_rank_per_device()`."""
    global _count
    _reported.clear()
    while _ends:
        _ends.pop()()
    if _count:
        for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
            os.environ.pop(name, None)
    _count = 0
