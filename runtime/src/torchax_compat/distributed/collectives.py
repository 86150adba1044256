"""`torch.distributed` communication of torchax tensors.

Tensors go through the host and gloo, which does not know torchax.
In a single process, which drives all chips, `all_reduce`, `reduce`, `broadcast` and `barrier` do nothing,
with or without a process group.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import distributed
from torchax.tensor import Tensor
from torchax.view import View

from .. import ranks
from ..adapters.torch_internals import disable_current_modes, pytree
from ..patches.declarations import TORCH, patch
from . import local_collectives

#: Operations that do not change the tensors of a single process.
_IN_PLACE = ("all_reduce", "broadcast", "reduce")
_GATHERING = (
    *("all_gather", "all_gather_into_tensor", "all_to_all", "all_to_all_single", "gather", "scatter"),
    *("reduce_scatter", "reduce_scatter_tensor"),
)
_OF_OBJECTS = ("all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list")


def _through_host(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = pytree.tree_flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, (Tensor, View))]
        if not places:
            return function(*args, **kwargs)
        with torch.no_grad():
            copies = {i: leaves[i].detach().cpu() for i in places}
        args, kwargs = pytree.tree_unflatten([copies.get(i, leaf) for i, leaf in enumerate(leaves)], tree)
        waits = not kwargs.pop("async_op", False)
        before = {i: copy.clone() for i, copy in copies.items()}
        with disable_current_modes():
            function(*args, **kwargs)
            changed = [i for i in places if not torch.equal(copies[i], before[i])]
        with torch.no_grad():
            for i in changed:
                leaves[i].copy_(copies[i])
        return None if waits else local_collectives.Done()

    return run


def _alone(function: Callable[..., Any]) -> Any:
    """A function that does nothing if there is only one process."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if distributed.is_initialized() and distributed.get_world_size(kwargs.get("group")) > 1:
            return function(*args, **kwargs)
        return local_collectives.Done() if kwargs.get("async_op") else None

    return run


def _past_torchax(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with disable_current_modes():
            return function(*args, **kwargs)

    return run


def _wait_for_all(group: Any = None, **_kwargs: Any) -> None:
    """`barrier`, without asking torchax for the devices to wait for."""
    with disable_current_modes():
        _reduce(torch.zeros(1), group=group)


def _of_ranks(name: str, function: Callable[..., Any]) -> Any:
    """A collective of ranks, where each device stands for one."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if ranks.size() == 1:
            return function(*args, **kwargs)
        if name not in local_collectives.COLLECTIVES:
            raise NotImplementedError(f"`{name}` between ranks that are devices")
        return local_collectives.COLLECTIVES[name](*args, **kwargs)

    return run


def _replace(name: str, function: Callable[..., Any], why: str) -> None:
    function = _of_ranks(name, function)
    for module in (distributed, distributed.distributed_c10d):
        if hasattr(module, name):
            target = f"{module.__name__}:{name}"
            patch(target, why=why, upstream=TORCH + "distributed/distributed_c10d.py")(function)


if distributed.is_available():
    _reduce = distributed.all_reduce
    for _name in (*_IN_PLACE, *_GATHERING):
        _function = _through_host(getattr(distributed, _name))
        _replace(
            _name,
            _alone(_function) if _name in _IN_PLACE else _function,
            f"gloo does not know torchax tensors, which `{_name}` copies through the host.",
        )
    for _name in _OF_OBJECTS:
        _replace(
            _name,
            _past_torchax(getattr(distributed, _name)),
            f"`{_name}` computes on tensors of the host, which torchax would create on the device.",
        )
    _replace("barrier", _alone(_wait_for_all), "`barrier` asks torchax for the devices to wait for.")
