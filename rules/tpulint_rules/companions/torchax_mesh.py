"""All devices work on each batch: what enters torchax is laid over a mesh of them.

Written by tpulint, at https://github.com/tpulint/tpulint; it belongs to the program from here on.
"""

import jax
import numpy as np
import torch
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from torchax.tensor import Environment

mesh = Mesh(np.array(jax.devices()), ("data",))

_ROWS = NamedSharding(mesh, PartitionSpec("data"))
_WHOLE = NamedSharding(mesh, PartitionSpec())
_copy = Environment.t2j_copy
_apply = torch.nn.Module._apply
_modules_moving = 0


def spread():
    """From here on each device holds a module's parameters and buffers, and its share of any other tensor's rows.

    A tensor whose rows are no multiple of the number of devices is held by all of them.
    XLA puts the communication in: a loss, and its gradients, are those of the whole batch.
    """
    Environment.t2j_copy = _copy_spread
    torch.nn.Module._apply = _apply_to_whole


def _copy_spread(env, tensors):
    return jax.tree.map(_laid, _copy(env, tensors))


def _laid(array):
    if _modules_moving or array.ndim == 0 or array.shape[0] % mesh.size:
        return jax.device_put(array, _WHOLE)
    return jax.device_put(array, _ROWS)


def _apply_to_whole(module, *arguments, **keywords):
    global _modules_moving
    _modules_moving += 1
    try:
        return _apply(module, *arguments, **keywords)
    finally:
        _modules_moving -= 1
