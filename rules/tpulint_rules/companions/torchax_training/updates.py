"""The function `compiled`: JAX compiles the `step` of an optimizer, or a function that changes weights."""

from __future__ import annotations

import torch

from . import training
from .optimizers import steps


def compiled(changing):
    """Compile the `step` of an optimizer, or a function that changes weights without gradients.

    For example::

        optimizer = compiled(torch.optim.AdamW(model.parameters()))

        @compiled
        def update_average(average, model): ...

    Args:
        changing: an optimizer, or a function such as the update of an exponential moving average.

    Returns:
        The same optimizer, whose `step` JAX compiles. Optimizers whose compiled step would give different
        results are returned unchanged, as are those that are not from `torch.optim`.
        For a function, one that JAX compiles, and that runs under `torch.no_grad()`.

    Warns:
        UserWarning: the `step` cannot be compiled, or the function runs call by call; the message has the
            reason.
    """
    if isinstance(changing, torch.optim.Optimizer) or not callable(changing):
        return steps.compiled(changing)
    return torch.no_grad()(training.differentiable(changing))
