"""Data parallelism: `spread()` shards each batch over all devices.

Written by tpulint, https://github.com/tpulint/tpulint.
This file is part of your repository: change it as you need.
"""

import jax
import numpy as np
import torch
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from torchax.tensor import Environment

mesh = Mesh(np.array(jax.devices()), ("data",))

_ROWS = NamedSharding(mesh, PartitionSpec("data"))
_WHOLE = NamedSharding(mesh, PartitionSpec())
_modules_moving = 0


def spread():
    """Shard tensors over all devices when they are moved to torchax, and replicate the tensors of modules.

    From this call on, a tensor whose first dimension is a multiple of the number of devices is split along
    it.
    Any other tensor, and the parameters and buffers of modules, are replicated on all devices.
    XLA inserts the communication: a loss and its gradients are those of the whole batch.
    """
    if Environment.t2j_copy is not _copy_spread:
        _copy_spread.copy, Environment.t2j_copy = Environment.t2j_copy, _copy_spread
        _apply_to_whole.apply, torch.nn.Module._apply = torch.nn.Module._apply, _apply_to_whole


def _copy_spread(env, tensors):
    """`Environment.t2j_copy`; its attribute `copy` is the method that copies, which `torchax_training` sets."""
    return jax.tree.map(_laid, _copy_spread.copy(env, tensors))


def _laid(array):
    if _modules_moving or array.ndim == 0 or array.shape[0] % mesh.size:
        return jax.device_put(array, _WHOLE)
    return jax.device_put(array, _ROWS)


def _apply_to_whole(module, *arguments, **keywords):
    """`Module._apply`, during which tensors are replicated."""
    global _modules_moving
    _modules_moving += 1
    try:
        return _apply_to_whole.apply(module, *arguments, **keywords)
    finally:
        _modules_moving -= 1
