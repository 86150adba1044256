"""`SyncBatchNorm`, where each device is a rank: statistics of the batches of all ranks."""

from __future__ import annotations

from typing import Any

import jax
import torch

from .. import ranks
from ..tensor import arrays


def synchronized(module: Any, batch: torch.Tensor) -> Any:
    """The result of a `SyncBatchNorm` in training."""
    if not ranks.are_mapped():
        ranks.report_once("`SyncBatchNorm` uses statistics of one rank where ranks run one after the other")
    axes = [0, *range(2, batch.dim())]
    shape = [1, -1, *[1] * (batch.dim() - 2)]
    mean = _over_ranks(batch.mean(axes))
    centered = batch - mean.reshape(shape)
    variance = _over_ranks(centered.square().mean(axes))
    if module.track_running_stats:
        with torch.no_grad():
            _note(module, mean.detach(), variance.detach(), ranks.world() * batch.numel() // batch.size(1))
    normalized = centered * torch.rsqrt(variance + module.eps).reshape(shape)
    if module.affine:
        normalized = normalized * module.weight.reshape(shape) + module.bias.reshape(shape)
    return normalized


def _over_ranks(value: Any) -> Any:
    """The average over the ranks of a value that each of them has."""
    return arrays.tensor(jax.lax.pmean(value.jax(), ranks.AXIS)) if ranks.are_mapped() else value


def _note(module: Any, mean: Any, variance: Any, count: int) -> None:
    """Update the running statistics, as `BatchNorm` does; `count` is the number of values per channel."""
    module.num_batches_tracked.add_(1)
    share = module.momentum
    if share is None:
        share = 1.0 / module.num_batches_tracked
    module.running_mean.copy_(module.running_mean * (1 - share) + mean * share)
    unbiased = variance * (count / (count - 1))
    module.running_var.copy_(module.running_var * (1 - share) + unbiased * share)
