"""Ranks in one process: each device of the host stands for one process of the original program.

A program that was started as one process per GPU, with `torchrun` or `torch.multiprocessing.spawn`, runs as
one process that drives all devices of its host.
The devices are a mesh of one dimension, and each device computes what one rank computed.

On several hosts, each process has the ranks of its own devices, and computes only with these.
The processes communicate where those of the original program did: in collectives, and after the backward
pass, for the averages of the gradients (`between_processes.py`).
So a process may do something that others do not, such as saving a checkpoint.
"""

from __future__ import annotations

import contextlib
import enum
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping

from .. import environment
from . import launchers

#: The name of the dimension of the mesh, over which batches are sharded.
AXIS = "data"
#: The name of the dimension over which parameters are sharded that a plan or a rule names.
MODEL_AXIS = "model"
#: The environment variable that limits the number of ranks in a process.
VARIABLE = "TORCHAX_COMPAT_RANKS"

_logger = logging.getLogger(__name__.rpartition(".")[0])
_count = 0  # the ranks in this process, without those that have other parts of the same parameters
_model = 1  # the devices over which parameters are sharded
_process, _processes = 0, 1
_contexts: list[Context] = []
#: Called by `one_rank_per_device()`, and the functions that they returned, which take back what they did.
STARTS: list[Callable[[], Callable[[], None]]] = []
#: Called when the devices are laid out in another way.
CHANGES: list[Callable[[], None]] = []
_reported: set[str] = set()
_ends: list[Callable[[], None]] = []


class Context(enum.Enum):
    """How code runs in which tensors are those of one rank."""

    #: For one rank after the other.
    IN_TURN = enum.auto()
    #: JAX maps it over the ranks of this process, so that collectives over `AXIS` work.
    MAPPED = enum.auto()
    #: JAX maps it over the ranks of all processes.
    JOINED = enum.auto()


class OtherProcessesNeededError(Exception):
    """Code that JAX maps over the ranks of one process has a collective over the ranks of all processes."""


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
    On P hosts, start one process on each, as by `torchrun --nnodes=P --nproc_per_node=1`.
    There are P times N ranks then, `get_rank()` is that of the first device of the process, and a
    `DataLoader` yields the batches of the ranks of its own process.

    The environment variables `RANK`, `LOCAL_RANK` and `WORLD_SIZE` are set for the program.
    The environment variable `TORCHAX_COMPAT_RANKS` sets a smaller number of ranks in each process.

    Raises:
        RuntimeError: the runtime is not enabled, or several processes have too little in common.
        ValueError: an environment variable has no number.

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
    global _count, _process, _processes
    if not environment.is_enabled():
        raise RuntimeError("call `torchax_compat.enable()` before `one_rank_per_device()`")
    if _count:
        return
    wanted = launchers.number(VARIABLE, sys.maxsize, least=1)
    launchers.connect()
    import jax

    from ..tensor import copies, sharding

    available = jax.local_device_count()
    _count = min(available, wanted)
    _process, _processes = jax.process_index(), jax.process_count()
    sharding.use(_count)
    copies.place_by(sharding.on_all_devices)
    _set(launchers.variables(first(), _count, world()))
    _ends.extend(start() for start in STARTS)
    _report(available)


def _set(variables: Mapping[str, str]) -> None:
    """Set environment variables, until `forget()`."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)

    def restore() -> None:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    _ends.append(restore)


def _report(available: int) -> None:
    import jax

    platform = jax.default_backend()
    if world() == 1:
        why = "this host has one device" if available == 1 else f"{VARIABLE} is 1"
        text = f"data parallelism over 1 {platform} device, because {why}"
    else:
        why = "one rank for each device of this host"
        if _count < available:
            why = f"{VARIABLE} is {_count}, of {available} devices"
        elif _processes > 1:
            why = f"one rank for each device of {_processes} processes"
        text = (
            f"data parallelism over {world()} {platform} devices: mesh ({AXIS}={world()}), because {why}; "
            "each device computes the batch of one rank, parameters and optimizer state are replicated"
        )
    report_once(text)


def lay_out(model: int) -> None:
    """Shard parameters over groups of devices, which then compute with the same batch.

    Args:
        model: the number of devices in a group.

    Raises:
        ValueError: it does not divide the number of devices of this process.
    """
    global _count, _model
    if model == _model:
        return
    devices = count() * _model
    if devices % model or _model > 1:
        raise ValueError(
            f"a mesh with {model} devices for parts of the parameters, on {devices} devices of this process"
            + (f", which are laid out for {_model} already" if _model > 1 else "")
        )
    from ..tensor import sharding

    _count, _model = devices // model, model
    sharding.use(_count, model)
    for change in CHANGES:
        change()
    report_once(
        f"tensor parallelism over {size()} devices: mesh ({AXIS}={world()}, {MODEL_AXIS}={model}); the "
        f"parameters that the program names are sharded over {MODEL_AXIS}, batches over {AXIS}"
    )


def report_once(text: str) -> None:
    """Log a text, or print it on stderr if the program has not configured the logger; only in process 0."""
    if text in _reported or _process:
        return
    _reported.add(text)
    if _logger.isEnabledFor(logging.INFO):
        _logger.info(text)
    else:
        print(f"torchax_compat: {text}", file=sys.stderr)


@contextlib.contextmanager
def of_one(context: Context) -> Iterator[None]:
    """Context in which tensors are those of one rank."""
    _contexts.append(context)
    try:
        yield
    finally:
        _contexts.pop()


def context() -> Context | None:
    """How the running code runs, if its tensors are those of one rank."""
    return _contexts[-1] if _contexts else None


def are_of_one() -> bool:
    """Whether tensors are those of one rank."""
    return bool(_contexts)


def are_mapped() -> bool:
    """Whether JAX maps the running code over all ranks.

    Raises:
        OtherProcessesNeededError: JAX maps it over the ranks of this process, and there are others.
    """
    if not _contexts or _contexts[-1] is Context.IN_TURN:
        return False
    if _processes > 1 and _contexts[-1] is Context.MAPPED:
        raise OtherProcessesNeededError
    return True


def are_on() -> bool:
    """Whether each device stands for a rank, and there are several."""
    return world() > 1


def are_counted() -> bool:
    """Whether `one_rank_per_device()` was called, on however many devices."""
    return _count > 0


def count() -> int:
    """The number of ranks in this process."""
    return max(_count, 1)


def process() -> int:
    """The number of this process."""
    return _process


def processes() -> int:
    """The number of processes."""
    return _processes


def first() -> int:
    """The first rank of this process."""
    return _process * count()


def own() -> range:
    """The ranks of this process."""
    return range(first(), first() + count())


def world() -> int:
    """The number of ranks in all processes."""
    return _processes * count()


def model() -> int:
    """The number of devices over which parameters are sharded that a plan or a rule names."""
    return _model


def size() -> int:
    """The number of processes of the original program: of ranks that get a batch, times `model()`."""
    return world() * _model


def forget() -> None:
    """End the effect of `one_rank_per_device()`; JAX stays connected with other processes."""
    global _count, _model, _process, _processes
    _reported.clear()
    while _ends:
        _ends.pop()()
    _count, _model, _process, _processes = 0, 1, 0, 1
