"""Running statistics of batch and instance normalization, which torchax does not update.

`F.batch_norm` and `F.instance_norm` update them as in PyTorch, whether modules or the program call these
functions.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import weakref
from collections.abc import Iterator
from typing import Any

import torch
import torchax
from torch.nn import functional
from torch.nn.modules import batchnorm
from torchax.tensor import Tensor

from .. import ranks
from ..adapters.torch_internals import BatchNormBase, InstanceNormBase
from ..jit import call_by_call
from ..patches.declarations import TORCH, patch
from ..ranks import batch_statistics

#: Whether the statistics of the current call are updated already.
_are_kept = False


@contextlib.contextmanager
def _kept() -> Iterator[Any]:
    global _are_kept
    before, _are_kept = _are_kept, True
    try:
        yield
    finally:
        _are_kept = before


def _with_statistics(normalize: Any, statistics: Any, flag: Any) -> Any:
    """A normalization that updates the running statistics that it is given."""
    signature = inspect.signature(normalize)

    @functools.wraps(normalize)
    def run(*args: Any, **kwargs: Any) -> Any:
        if _are_kept:
            return normalize(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        if given[flag] and isinstance(given["running_mean"], (Tensor, torchax.view.View)):
            with torch.no_grad():
                found = statistics(given["input"].float())
                for name, new in zip(("running_mean", "running_var"), found, strict=False):
                    given[name].copy_(torch.lerp(given[name], new, given["momentum"]))
            given["momentum"] = 0.0  # it may be a tensor
        with _kept():
            return normalize(**given)

    return run


def _of_batch(x: Any) -> Any:
    over = [dim for dim in range(x.ndim) if dim != 1]
    return x.mean(over), x.var(over)


def _of_instances(x: Any) -> Any:
    over = list(range(2, x.ndim))
    return x.mean(over).mean(0), x.var(over).mean(0)


_WHY = "torchax does not update the running statistics."
_FUNCTIONS = TORCH + "nn/functional.py"
_MODULES = TORCH + "nn/modules"
patch("torch.nn.functional:batch_norm", why=_WHY, upstream=_FUNCTIONS)(
    _with_statistics(functional.batch_norm, _of_batch, "training")
)
patch("torch.nn.functional:instance_norm", why=_WHY, upstream=_FUNCTIONS)(
    _with_statistics(functional.instance_norm, _of_instances, "use_input_stats")
)


def _forward_of(kind: Any) -> Any:
    forward = kind.forward

    @functools.wraps(forward)
    def run(module: torch.nn.Module, x: Any) -> Any:
        if kind is batchnorm.SyncBatchNorm and module.training and ranks.are_on():
            return batch_statistics.synchronized(module, x)
        if not (module.training and module.track_running_stats and isinstance(module.running_mean, Tensor)):
            return forward(module, x)
        mean, momentum = module.running_mean.jax(), module.momentum
        is_hooks = _before_hooks.pop(module, mean) is not mean  # a hook of the program updates them
        try:
            if momentum is None:  # torch would read the count of batches
                module.momentum = 1 / (module.num_batches_tracked + 1)
            with _kept() if is_hooks else contextlib.nullcontext():
                return forward(module, x)
        finally:
            module.momentum = momentum

    return run


_before_hooks: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


@patch(
    "torch.nn.modules.batchnorm:_NormBase.__call__",
    why="A hook of the program that updates the running statistics must not have them updated twice.",
    upstream=f"{_MODULES}/batchnorm.py",
)
def _called(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    """A call of a normalization module, which notes the running mean before its hooks."""
    if module._forward_pre_hooks and isinstance(module.running_mean, Tensor):
        _before_hooks[module] = module.running_mean.jax()
    return call_by_call.call_module(module, *args, **kwargs)


for _target, _kind in {
    "batchnorm:_BatchNorm": BatchNormBase,
    "batchnorm:SyncBatchNorm": batchnorm.SyncBatchNorm,
    "instancenorm:_InstanceNorm": InstanceNormBase,
}.items():
    patch(
        f"torch.nn.modules.{_target}.forward",
        why="PyTorch reads the count of batches for `momentum=None`, which a compiled function cannot.",
        upstream=f"{_MODULES}/{_target.partition(':')[0]}.py",
    )(_forward_of(_kind))
