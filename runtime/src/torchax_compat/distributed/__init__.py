"""One process that drives all chips: wrappers, process groups and device meshes of `torch.distributed`."""

from __future__ import annotations

from .batch_sharding import shard_batches
from .wrapping import single_process

__all__ = ["shard_batches", "single_process"]
