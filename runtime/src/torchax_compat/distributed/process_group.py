"""The process group of a program whose ranks are the devices of this process.

It is PyTorch's group for tests, which has a number of ranks but no other processes.
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

_UPSTREAM = TORCH + "distributed/distributed_c10d.py"
_UPSTREAM_OF_WRAPPER = TORCH + "nn/parallel/distributed.py"
_WHY = "With one rank for each device, the ranks are in one process, which has no other one to start."
_WHY_WRAPPED = "With one rank for each device, the gradients are those of all ranks already."


@setup("one rank for each device", why="`disable()` ends the effect of `one_rank_per_device()`.")
def _ranks() -> Any:
    return ranks.forget


if distributed.is_available():
    _start = distributed.init_process_group

    @patch("torch.distributed:init_process_group", why=_WHY, upstream=_UPSTREAM)
    @patch("torch.distributed.distributed_c10d:init_process_group", why=_WHY, upstream=_UPSTREAM)
    def _started(*args: Any, **kwargs: Any) -> None:
        """`init_process_group`, of the ranks of this process."""
        if not ranks.are_counted():
            _start(*args, **kwargs)
            return
        _start("fake", store=fake_store(), rank=0, world_size=ranks.count())

    _ask_backend = distributed.get_backend

    @patch("torch.distributed:get_backend", why=_WHY, upstream=_UPSTREAM)
    @patch("torch.distributed.distributed_c10d:get_backend", why=_WHY, upstream=_UPSTREAM)
    def _backend(group: Any = None) -> Any:
        """`get_backend`: that of tensors of the host and of the device."""
        return "gloo" if ranks.are_counted() else _ask_backend(group)


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


@patch(_NAME + "forward", why=_WHY_WRAPPED, upstream=_UPSTREAM_OF_WRAPPER)
def _calls(self: Any, *inputs: Any, **kwargs: Any) -> Any:
    if not ranks.are_counted():
        return _call(self, *inputs, **kwargs)
    if ranks.are_on() and self.training and torch.is_grad_enabled() and not ranks.are_of_one():
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
    """`no_sync()`: a sum of averages of gradients is the average of the sums."""
    with contextlib.nullcontext() if ranks.are_counted() else _postpone(self):
        yield


@patch(_NAME + "__getstate__", why=_WHY_WRAPPED, upstream=_UPSTREAM_OF_WRAPPER)
def _state(self: Any) -> Any:
    return self.__dict__.copy() if ranks.are_counted() else _get_state(self)


@patch(_NAME + "__setstate__", why=_WHY_WRAPPED, upstream=_UPSTREAM_OF_WRAPPER)
def _with_state(self: Any, state: Any) -> None:
    if ranks.are_counted():
        torch.nn.Module.__setstate__(self, state)
    else:
        _set_state(self, state)
