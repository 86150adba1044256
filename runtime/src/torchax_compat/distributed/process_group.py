"""The process group of a program whose ranks are the devices of this process, or of several.

It is PyTorch's group for tests, which has a number of ranks but does not communicate.
The collectives are those of `local_collectives`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from .. import ranks
from ..adapters.torch_internals import fake_store
from ..patches.declarations import TORCH, patch, setup
from . import synchronization

_UPSTREAM = TORCH + "distributed/distributed_c10d.py"
_UPSTREAM_OF_WRAPPER = TORCH + "nn/parallel/distributed.py"
_WHY = "With one rank for each device, the ranks are in one process; JAX connects it with others."
_WHY_WRAPPED = "With one rank for each device, the gradients are those of all ranks already."


@setup("one rank for each device", why="`disable()` ends the effect of `one_rank_per_device()`.")
def _ranks() -> Any:
    return ranks.forget


def _check_size(wanted: int) -> None:
    """Compare the number of ranks that a program passes with the number that there is."""
    if wanted in (-1, None, ranks.size()):
        return
    text = (
        f"`init_process_group` gets `world_size={wanted}`, but the world size is {ranks.size()} "
        f"(processes: {ranks.processes()}, devices of each: {ranks.count()})"
    )
    if ranks.processes() > 1:
        raise RuntimeError(
            f"{text}; pass the product of both, as the number of hosts times `jax.local_device_count()`"
        )
    ranks.report_once(
        f"{text}; for several hosts, start one process on each, as with `torchrun --nnodes=2 "
        "--nproc_per_node=1`"
    )


if distributed.is_available():
    _start = distributed.init_process_group

    @patch("torch.distributed:init_process_group", why=_WHY, upstream=_UPSTREAM)
    @patch("torch.distributed.distributed_c10d:init_process_group", why=_WHY, upstream=_UPSTREAM)
    def _started(*args: Any, **kwargs: Any) -> None:
        """`init_process_group`, of the ranks of this process."""
        if not ranks.are_counted():
            _start(*args, **kwargs)
            return
        _check_size(kwargs.get("world_size", args[3] if len(args) > 3 else -1))
        _start("fake", store=fake_store(), rank=ranks.first() * ranks.model(), world_size=ranks.size())

    _ask_backend = distributed.get_backend

    @patch("torch.distributed:get_backend", why=_WHY, upstream=_UPSTREAM)
    @patch("torch.distributed.distributed_c10d:get_backend", why=_WHY, upstream=_UPSTREAM)
    def _backend(group: Any = None) -> Any:
        """`get_backend`: that of tensors of the host and of the device."""
        return "gloo" if ranks.are_counted() else _ask_backend(group)

    _backend_for = distributed.get_default_backend_for_device

    @patch("torch.distributed:get_default_backend_for_device", why=_WHY, upstream=_UPSTREAM)
    @patch("torch.distributed.distributed_c10d:get_default_backend_for_device", why=_WHY, upstream=_UPSTREAM)
    def _default_backend(device: Any) -> Any:
        """`get_default_backend_for_device`: that of `get_backend`."""
        return "gloo" if ranks.are_counted() else _backend_for(device)


_wrap, _call = DistributedDataParallel.__init__, DistributedDataParallel.forward
_set_mode, _postpone = DistributedDataParallel.train, DistributedDataParallel.no_sync
_get_state, _set_state = DistributedDataParallel.__getstate__, DistributedDataParallel.__setstate__
_NAME = "torch.nn.parallel.distributed:DistributedDataParallel."


@patch(_NAME + "__init__", why=_WHY_WRAPPED, upstream=_UPSTREAM_OF_WRAPPER)
def _wraps(
    self: Any,
    module: torch.nn.Module,
    device_ids: Any = None,
    output_device: Any = None,
    *args: Any,
    **kwargs: Any,
) -> None:
    if not ranks.are_counted():
        _wrap(self, module, device_ids, output_device, *args, **kwargs)
        return
    torch.nn.Module.__init__(self)
    self.module, self.device_ids, self.output_device = module, device_ids, output_device
    self.require_backward_grad_sync = True
    synchronization.synchronize(
        self,
        sends_buffers=kwargs.get("broadcast_buffers") is not False,
        may_be_unused=kwargs.get("find_unused_parameters", False),
    )


@patch(_NAME + "forward", why=_WHY_WRAPPED, upstream=_UPSTREAM_OF_WRAPPER)
def _calls(self: Any, *inputs: Any, **kwargs: Any) -> Any:
    if not ranks.are_counted():
        return _call(self, *inputs, **kwargs)
    if ranks.count() > 1 and self.training and torch.is_grad_enabled() and not ranks.are_of_one():
        ranks.report_once(
            f"the batch of `DistributedDataParallel` is the same on all {ranks.count()} ranks, so that each "
            "device computes the same: use a `DataLoader` with a `DistributedSampler`"
        )
    return self.module(*inputs, **kwargs)


@patch(_NAME + "train", why=_WHY_WRAPPED, upstream=_UPSTREAM_OF_WRAPPER)
def _trains(self: Any, mode: bool = True) -> Any:
    return torch.nn.Module.train(self, mode) if ranks.are_counted() else _set_mode(self, mode)


@patch(_NAME + "no_sync", why=_WHY_WRAPPED, upstream=_UPSTREAM_OF_WRAPPER)
@contextlib.contextmanager
def _postpones(self: Any) -> Iterator[None]:
    """`no_sync()`: the average of sums of gradients is the sum of their averages."""
    if not ranks.are_counted():
        with _postpone(self):
            yield
        return
    before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
    try:
        yield
    finally:
        self.require_backward_grad_sync = before


@patch(_NAME + "__getstate__", why=_WHY_WRAPPED, upstream=_UPSTREAM_OF_WRAPPER)
def _state(self: Any) -> Any:
    return self.__dict__.copy() if ranks.are_counted() else _get_state(self)


@patch(_NAME + "__setstate__", why=_WHY_WRAPPED, upstream=_UPSTREAM_OF_WRAPPER)
def _with_state(self: Any, state: Any) -> None:
    if ranks.are_counted():
        torch.nn.Module.__setstate__(self, state)
    else:
        _set_state(self, state)
