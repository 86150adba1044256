"""`torch.compile` without an effect: it cannot compile for torchax's device.

Its compiler raises for functions that run within operations of torchax.
JAX compiles the decorated functions of the program instead.
`Module.compile` calls `torch.compile`, too.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from ..patches.declarations import TORCH, patch


@patch(
    "torch:compile",
    why="PyTorch's compiler raises for functions that run within operations of torchax.",
    upstream=TORCH + "__init__.py",
)
@functools.wraps(torch.compile)
def _unchanged(model: Any = None, **options: Any) -> Any:
    if model is None:
        return functools.partial(_unchanged, **options)
    # The result for a module has its attribute `_orig_mod`.
    return torch.compiler.disable(model) if isinstance(model, torch.nn.Module) else model
