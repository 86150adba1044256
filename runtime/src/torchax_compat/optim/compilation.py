"""Compilation of code that changes weights without gradients: `step` of an optimizer, averages of weights."""

from __future__ import annotations

import sys


def compile_optimizer(optimizer):
    """Compile the `step` of an optimizer with JAX; its `lr` and `betas` may differ from step to step.

    For example::

        optimizer = compile_optimizer(torch.optim.AdamW(model.parameters()))

    Args:
        optimizer: an optimizer of `torch.optim`.

    Returns:
        The same optimizer, whose `step` JAX compiles. Optimizers whose compiled step would give different
        results are returned unchanged, as are those that are not from `torch.optim`, and all of them where
        torchax is not used, as in a program that runs on CUDA.

    Warns:
        UserWarning: the `step` cannot be compiled; the message has the reason.
    """
    if "torchax" not in sys.modules:
        return optimizer
    from . import steps

    return steps.compile_step(optimizer)


def compile_update(function):
    """Decorator: JAX compiles a function that changes weights without gradients.

    For example::

        @compile_update
        def update_average(average, model): ...

    Args:
        function: a function such as the update of an exponential moving average.

    Returns:
        A function with the same arguments, which runs under `torch.no_grad()`.

    Warns:
        UserWarning: the function runs call by call; the message has the reason.
    """
    import torch

    from ..autograd.differentiable import differentiable

    return torch.no_grad()(differentiable(function))
