"""PyTorch programs on TPU, through torchax: gradients, optimizers and operators as PyTorch defines them.

- `enable()` enters the torchax environment and applies the patches; `disable()` restores everything, and
  `status()` lists the patches.
- `@differentiable`: JAX compiles the function and computes its gradients, for `loss.backward()`.
- `@higher_order`: `torch.autograd.grad` works in the function.
- `compile_optimizer(optimizer)` and `@compile_update`: JAX compiles the `step` of an optimizer, or a function
  that changes weights without gradients.
- `single_process(module)`: a wrapper like `DataParallel` that calls the module directly, since one process
  drives all chips.
- `cuda`, `data`, `distributed` and `vision` have replacements for single functions of PyTorch.

Importing this package changes nothing, and imports neither torch nor JAX.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .autograd.differentiable import differentiable
from .autograd.recording import higher_order
from .distributed.wrapping import single_process
from .environment import PatchStatus, UnsupportedVersion, disable, enable, is_enabled, status
from .optim.compilation import compile_optimizer, compile_update
from .version import __version__

if TYPE_CHECKING:
    from . import cuda, data, distributed, vision

__all__ = [
    "PatchStatus",
    "UnsupportedVersion",
    "__version__",
    "compile_optimizer",
    "compile_update",
    "cuda",
    "data",
    "differentiable",
    "disable",
    "distributed",
    "enable",
    "higher_order",
    "is_enabled",
    "single_process",
    "status",
    "vision",
]

_SUBPACKAGES = {"cuda", "data", "distributed", "vision"}


def __getattr__(name: str) -> Any:
    """The subpackages whose functions programs use, which are imported on demand."""
    if name in _SUBPACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBPACKAGES})
