"""`DataParallel` and `data_parallel`: wrappers that call the module directly.

A single process drives all chips, so a wrapper that distributes a module over GPUs only calls it.
`torch.nn.DataParallel` and `torch.nn.parallel.data_parallel` do the same.
Subclasses of `DataParallel` then behave in the same way, such as the `DataParallelWithCallback` of
synchronized batch normalization.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from .. import ranks
from ..adapters.torch_internals import pytree
from ..patches.declarations import TORCH, patch
from . import batch_sharding

_WHY = "It needs GPUs to distribute the module over; on torchax, one process drives all chips."
_UPSTREAM = TORCH + "nn/parallel/data_parallel.py"


def _scattered(module: torch.nn.Module, values: Any) -> Any:
    """Inputs with tensors moved to the device of the module's weights, as wrappers do."""
    weights = next(module.parameters(), None)
    if weights is None or weights.device.type != "jax":
        return values
    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to("jax"), values)


@patch("torch.nn:DataParallel.__init__", why=_WHY, upstream=_UPSTREAM)
def _wraps(
    self: Any,
    module: torch.nn.Module,
    device_ids: Any = None,  # noqa: ARG001 # torch's; there is a single device
    output_device: Any = None,  # noqa: ARG001 # torch's
    dim: Any = 0,
) -> None:
    """`torch.nn.DataParallel.__init__` for a single process, which shards batches over its devices."""
    if ranks.are_on():
        batch_sharding.shard_batches()
    torch.nn.Module.__init__(self)
    self.module, self.dim = module, dim
    self.device_ids, self.output_device = [0], 0
    self.src_device_obj = torch.device("jax")


@patch("torch.nn:DataParallel.forward", why=_WHY, upstream=_UPSTREAM)
def _calls(self: Any, *inputs: Any, **kwargs: Any) -> Any:
    """`torch.nn.DataParallel.forward`."""
    inputs, kwargs = _scattered(self.module, (inputs, kwargs))
    return self.module(*inputs, **kwargs)


@patch("torch.nn:DataParallel.scatter", why=_WHY, upstream=_UPSTREAM)
def _scatters(self: Any, inputs: Any, kwargs: dict[str, Any], device_ids: Any = None) -> Any:  # noqa: ARG001 # torch's
    """`torch.nn.DataParallel.scatter` to a single device."""
    inputs, kwargs = _scattered(self.module, (inputs, kwargs))
    return (inputs,), (kwargs,)


class DataParallel(torch.nn.DataParallel, DistributedDataParallel):
    """A wrapper with the interface of `DataParallel` and `DistributedDataParallel`.

    It has the attribute `module`, and the names of its parameters begin with `module.`.
    """

    __init__, forward, scatter = _wraps, _calls, _scatters

    def train(self, mode: bool = True) -> Any:
        """`Module.train`; that of `DistributedDataParallel` needs a process group."""
        return torch.nn.Module.train(self, mode)

    def __getstate__(self) -> Any:
        return self.__dict__.copy()

    def __setstate__(self, state: Any) -> None:
        torch.nn.Module.__setstate__(self, state)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Does nothing: one process has nothing to synchronize."""
        yield


@patch("torch.nn.parallel:data_parallel", why=_WHY, upstream=_UPSTREAM)
def _data_parallel(
    module: torch.nn.Module,
    inputs: Any,
    device_ids: Any = None,  # noqa: ARG001 # torch's; there is a single device
    output_device: Any = None,  # noqa: ARG001 # torch's
    dim: Any = 0,  # noqa: ARG001 # torch's
    module_kwargs: Any = None,
) -> Any:
    """`torch.nn.parallel.data_parallel`."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    inputs, module_kwargs = _scattered(module, (inputs, module_kwargs or {}))
    return module(*inputs, **module_kwargs)
