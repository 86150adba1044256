"""Imports of torchvision and torchaudio in the torchax environment, and torchvision's `nms`.

These libraries call their own operators while they are imported, which torchax does not have.
An import hook turns torchax off during their import.
`nms` runs on the host, since torchax's returns an index for each box, including suppressed ones.
It is registered once torchvision is imported.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch

from ..adapters.torch_internals import DisableTorchFunction, no_dispatch
from ..patches import application
from ..patches.declarations import Operator, setup
from ..patches.import_hooks import ImportHook
from ..tensor import arrays

_LIBRARIES = frozenset({"torchvision", "torchaudio"})


class _Hook(ImportHook):
    """Executes the modules of some libraries outside of the torchax environment."""

    def __init__(self) -> None:
        self._registered: list[Callable[[], None]] = []

    def concerns(self, name: str) -> bool:
        """Whether a module belongs to one of the libraries."""
        return name.partition(".")[0] in _LIBRARIES

    def execute(self, execute: Any, module: Any) -> None:
        """Execute a module by a function of its loader."""
        with DisableTorchFunction(), no_dispatch():
            execute(module)
        if module.__name__ == "torchvision":
            self.register_nms()

    def register_nms(self) -> None:
        """Register `nms`, if torchvision has its operators."""
        # A torchvision may lack operators.
        with contextlib.suppress(ImportError, AttributeError, RuntimeError):
            importlib.import_module("torchax.ops.jtorchvision_nms")  # which registers torchax's own
            packet = torch.ops.torchvision.nms
            for operation in (packet, packet.default):
                self._registered.append(application.register(Operator(operation, _kept, _OPTIONS, _WHY)))

    def remove(self) -> None:
        """Remove the hook, and what it registered."""
        super().remove()
        application.restore(self._registered)


_OPTIONS = {"is_jax_function": False}
_WHY = "torchax's `nms` returns an index for each box, including suppressed ones."


@setup(
    "sys.meta_path",
    why="torchvision and torchaudio call operators that torchax lacks while they are imported.",
)
def _add_hook() -> Any:
    hook = _Hook()
    sys.meta_path.insert(0, hook)
    if "torchvision" in sys.modules:
        hook.register_nms()
    return hook.remove


def _kept(boxes: Any, scores: Any, iou_threshold: Any) -> Any:
    """The indices of the boxes that are kept."""
    boxes, scores = (np.array(arrays.on_torchax(x).jax(), dtype=np.float32) for x in (boxes, scores))
    with DisableTorchFunction(), no_dispatch():
        kept = torch.ops.torchvision.nms(torch.from_numpy(boxes), torch.from_numpy(scores), iou_threshold)
    return arrays.tensor(jnp.asarray(kept.numpy()))
