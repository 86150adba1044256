"""The decorator `@higher_order`: `torch.autograd.grad` works in a function of torchax tensors."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def higher_order(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Decorator of functions and methods that call `torch.autograd.grad` or `backward()` on torchax tensors.

    The operations in the function are recorded, so that JAX can compute them again and differentiate them.
    Write it below `@differentiable`, for gradients of gradients::

        @differentiable
        @higher_order
        def penalty(critic, x):
            (gradient,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
            return (gradient.norm(dim=1) - 1).square().mean()

    Args:
        function: a function of tensors. The outputs that it differentiates must be computed in it.

    Returns:
        A function with the same arguments and results. Where torchax is not used, as in a program that runs
        on CUDA, it calls the function as it is.

    Raises:
        NotImplementedError: `torch.autograd.grad` is called with `is_grads_batched=True`.
        RuntimeError: the outputs were computed without gradients, as in PyTorch.

    Example:
        >>> import torch, torchax_compat
        >>> torchax_compat.enable()
        >>> @torchax_compat.differentiable
        ... @torchax_compat.higher_order
        ... def penalty(x):
        ...     (gradient,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)
        ...     return gradient.sum()
        >>> x = torch.tensor([1.0, 2.0], device="jax", requires_grad=True)
        >>> penalty(x).backward()
        >>> x.grad.tolist()
        [6.0, 12.0]
    """

    @functools.wraps(function)
    def run(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        if "torchax" not in sys.modules:
            return function(*args, **kwargs)
        from .higher_order import Recorder

        with Recorder():
            return function(*args, **kwargs)

    return run
