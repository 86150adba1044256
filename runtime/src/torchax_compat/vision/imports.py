"""Imports of torchvision and torchaudio in the torchax environment, and torchvision's `nms`.

These libraries call their own operators while they are imported, which torchax does not have.
Importing this module adds an import hook that turns torchax off during their import.
`nms` runs on the host, since torchax's returns an index for each box, including suppressed ones.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from importlib.abc import MetaPathFinder

import jax.numpy as jnp
import numpy as np
import torch
from torch.utils._mode_utils import no_dispatch

from ..ops.registry import register
from ..tensor import arrays

_LIBRARIES = frozenset({"torchvision", "torchaudio"})


class _PastTorchax(MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] not in _LIBRARIES:
            return None
        later = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (finder.find_spec(fullname, path, target) for finder in later)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader.exec_module = functools.partial(_past_torchax, spec.loader.exec_module)
        return spec


def _past_torchax(execute, module):
    with torch._C.DisableTorchFunction(), no_dispatch():
        execute(module)
    if module.__name__ == "torchvision":
        _bring_nms()


def _bring_nms():
    with contextlib.suppress(ImportError, AttributeError, RuntimeError):  # a torchvision without operators
        importlib.import_module("torchax.ops.jtorchvision_nms")  # which registers torchax's own
        operation = torch.ops.torchvision.nms
        register(_kept, operation, operation.default, by_jax=False)


def _kept(boxes, scores, iou_threshold):
    """The indices of the boxes that are kept."""
    boxes, scores = (np.array(arrays.on_torchax(x).jax(), dtype=np.float32) for x in (boxes, scores))
    with torch._C.DisableTorchFunction(), no_dispatch():
        kept = torch.ops.torchvision.nms(torch.from_numpy(boxes), torch.from_numpy(scores), iou_threshold)
    return arrays.tensor(jnp.asarray(kept.numpy()))


sys.meta_path.insert(0, _PastTorchax())
if "torchvision" in sys.modules:
    _bring_nms()
