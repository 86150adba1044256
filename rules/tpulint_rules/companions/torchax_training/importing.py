"""Imports of torchvision within the torchax environment; importing this file brings them in.

While it is imported, it calls operators of its own, of which torchax has none: so it is imported past torchax.
"""

from __future__ import annotations

import functools
import sys
from importlib.abc import MetaPathFinder

import torch
from torch.utils._mode_utils import no_dispatch

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


sys.meta_path.insert(0, _PastTorchax())
