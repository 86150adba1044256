"""Running statistics of normalisations, which torchax leaves as they are; importing this file brings them in."""

from __future__ import annotations

import functools
import weakref

import torch
import torchax
from torch.nn.modules import batchnorm, instancenorm
from torchax.tensor import Tensor


def _with_statistics(forward):
    """The forward of a normalisation, with its running statistics, which torchax leaves as they are."""

    @functools.wraps(forward)
    def run(module, x):
        is_there = isinstance(x, (Tensor, torchax.view.View))
        if not (is_there and module.training and module.track_running_stats):
            return forward(module, x)
        momentum = module.momentum
        if _before_hooks.pop(module, module.running_mean.jax()) is module.running_mean.jax():
            _keep_statistics(module, x, momentum)  # else a hook of the program's own does
        try:
            module.momentum = momentum or 0.0  # None makes torch ask for the count of batches
            return forward(module, x)
        finally:
            module.momentum = momentum

    return run


def _keep_statistics(module, x, momentum):
    with torch.no_grad():
        x = x.float()
        over = [dim for dim in range(x.ndim) if dim != 1]
        step = 1 / (module.num_batches_tracked + 1) if momentum is None else momentum
        module.running_mean.copy_(torch.lerp(module.running_mean, x.mean(over), step))
        module.running_var.copy_(torch.lerp(module.running_var, x.var(over), step))


_before_hooks = weakref.WeakKeyDictionary()
_call = torch.nn.Module.__call__


def _called(module, *args, **kwargs):
    """A call of a normalisation, which notes the mean that its hooks find."""
    if module._forward_pre_hooks and isinstance(module.running_mean, Tensor):
        _before_hooks[module] = module.running_mean.jax()
    return _call(module, *args, **kwargs)


batchnorm._NormBase.__call__ = _called
for _kind in (batchnorm._BatchNorm, batchnorm.SyncBatchNorm, instancenorm._InstanceNorm):
    _kind.forward = _with_statistics(_kind.forward)
