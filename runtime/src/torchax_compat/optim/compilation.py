"""Compilation of code that changes weights without gradients: `step` of an optimizer, averages of weights."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    import torch

_Optimizer = TypeVar("_Optimizer", bound="torch.optim.Optimizer")
_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def compile_optimizer(optimizer: _Optimizer) -> _Optimizer:
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

    Example:
        >>> import torch, torchax_compat
        >>> torchax_compat.enable()
        >>> weight = torch.nn.Parameter(torch.ones(2, device="jax"))
        >>> optimizer = torchax_compat.compile_optimizer(torch.optim.SGD([weight], lr=0.5))
        >>> weight.grad = torch.ones(2, device="jax")
        >>> optimizer.step()
        >>> weight.tolist()
        [0.5, 0.5]
    """
    if "torchax" not in sys.modules:
        return optimizer
    from . import steps

    compiled: _Optimizer = steps.compile_step(optimizer)
    return compiled


def compile_update(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
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

    Example:
        >>> import torch, torchax_compat
        >>> torchax_compat.enable()
        >>> @torchax_compat.compile_update
        ... def update_average(average, model):
        ...     for mean, weight in zip(average.parameters(), model.parameters()):
        ...         mean.lerp_(weight, 0.5)
        >>> model, average = (torch.nn.Linear(1, 1, bias=False).to("jax") for _ in range(2))
        >>> for weight, value in ((model.weight, 2.0), (average.weight, 4.0)):
        ...     _ = torch.nn.init.constant_(weight, value)
        >>> update_average(average, model)
        >>> average.weight.item()
        3.0
    """
    import torch

    from ..autograd.differentiable import differentiable

    compiled: Callable[_Parameters, _Result] = torch.no_grad()(differentiable(function))
    return compiled
