"""What changes weights and is compiled: optimizers, and functions such as that of an average of weights."""

from __future__ import annotations

import torch

from . import training
from .optimizers import steps


def compiled(changing):
    """An optimizer with a `step` that JAX compiles, or a function that it compiles; that has no gradients."""
    if isinstance(changing, torch.optim.Optimizer) or not callable(changing):
        return steps.compiled(changing)
    return torch.no_grad()(training.differentiable(changing))
