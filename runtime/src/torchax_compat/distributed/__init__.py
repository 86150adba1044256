"""One process that drives all chips: wrappers, process groups and device meshes of `torch.distributed`."""

from __future__ import annotations

from ..ranks import one_rank_per_device
from .batch_sharding import shard_batches
from .gathering import gather_values
from .named_sharding import shard_by_name
from .wrapping import single_process

__all__ = ["gather_values", "one_rank_per_device", "shard_batches", "shard_by_name", "single_process"]
