"""Device meshes of `torch.distributed`, as meshes of processes.

PyTorch's meshes start a process group for the device, which torchax does not have.
Here the process group of a `DeviceMesh`, which `init_device_mesh` creates, is one of gloo.
A program without a launcher is one process, with a process group of its own.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from torch import distributed
from torch.distributed import device_mesh

from ..adapters.torch_internals import disable_current_modes
from ..patches.declarations import TORCH, patch

_DEVICES = ("cuda", "jax", "xla", "privateuseone")
_make = device_mesh.DeviceMesh.__init__


@functools.wraps(_make)
def _made(self: Any, device_type: Any, *args: Any, **kwargs: Any) -> None:
    with disable_current_modes():
        _make(self, "cpu" if device_type in _DEVICES else device_type, *args, **kwargs)


def _start(*args: Any, **kwargs: Any) -> None:
    """Start the process group of a mesh."""
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        distributed.init_process_group("gloo", *args, **kwargs)
    else:
        alone = {"store": distributed.HashStore(), "rank": 0, "world_size": 1}
        distributed.init_process_group("gloo", *args, **{**alone, **kwargs})


if distributed.is_available():
    patch(
        "torch.distributed.device_mesh:DeviceMesh.__init__",
        why="It starts a process group for the device, which torchax does not have.",
        upstream=TORCH + "distributed/device_mesh.py",
    )(_made)
    patch(
        "torch.distributed.device_mesh:init_process_group",
        why="The process group is one of gloo; a program without a launcher is a single process.",
        upstream=TORCH + "distributed/device_mesh.py",
    )(_start)
