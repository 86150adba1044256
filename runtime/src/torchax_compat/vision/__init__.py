"""torchvision in the torchax environment: the functions of `torchvision.io` that decode images."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    """The functions of `decoding`, which import torchvision when they are used for the first time."""
    return getattr(importlib.import_module(f"{__name__}.decoding"), name)
