"""The node of PyTorch's autograd graph for a call of a function whose gradients JAX computes."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import jax
import torch

from ..adapters.torch_internals import function_apply
from ..tensor import arrays, deferral
from . import deferred_step, gradient_hooks, vjp_functions


class Node(torch.autograd.Function):
    """A call of a `Specialization`; `run` has its compiled forward and backward functions."""

    @staticmethod
    def forward(ctx: Any, version: Any, run: Any, *given: Any) -> Any:
        """The results of the function as tensors; integers among them have no gradient.

        With a recorded call in place of a compiled function, they are computed later.
        """
        forward, ctx.backward_function = run
        ctx.version, ctx.step = version, None
        if isinstance(forward, deferred_step.DeferredStep):
            ctx.is_float = version.is_float
            ctx.reached, ctx.bearing = version.reached, version.plan.bearing
            ctx.step = deferral.current = forward
            return _outputs(ctx, ctx.step.floats, ctx.step.rest)
        floats, rest, ctx.pullback, ctx.reached, ctx.bearing = version.compute(forward, given)
        ctx.kinds = tuple(value.aval for value in floats)
        ctx.is_float = version.is_float  # a function that runs call by call may return others next time
        return _outputs(ctx, list(map(arrays.tensor, floats)), list(map(arrays.tensor, rest)))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """The gradients of the inputs; None for those that the outputs do not depend on."""
        if all(gradient is None for gradient in gradients):
            return (None,) * (2 + len(ctx.version.with_gradient))
        if ctx.step is not None:
            _take_from_step(ctx)
        floats = [g for g, is_float in zip(gradients, ctx.is_float, strict=False) if is_float]
        values = [None if g is None else arrays.on_torchax(g).jax() for g in floats]
        reached = _reached_from(ctx, tuple(g is not None for g in floats))
        given = ctx.pullback, values, ctx.kinds, reached
        try:
            found = ctx.backward_function(*given)
        except gradient_hooks.HookWhileTracingError:
            ctx.version.backward = vjp_functions.pull_back
            found = vjp_functions.pull_back(*given)
        except jax.errors.ConcretizationTypeError as error:  # in the `backward` of a custom function
            warnings.warn(
                "the backward pass is not compiled (slower, same results), since the `backward` of a "
                f"custom `torch.autograd.Function` needs the value of a tensor: {arrays.first_line(error)}",
                stacklevel=1,
            )
            ctx.version.backward = vjp_functions.pull_back
            found = vjp_functions.pull_back(*given)
        # Inputs that the outputs do not depend on get None, not zeros, so that optimizers skip them.
        made = map(arrays.tensor, found)
        found = (next(made) if is_reached else None for is_reached in reached)
        return None, None, *(next(found) if wanted else None for wanted in ctx.version.with_gradient)


_apply = function_apply.__get__(None, Node)


def recorded(version: Any, given: Any, values: list[Any]) -> Any:
    """The results of a call of a `Specialization` that is recorded, and computed later."""
    step = deferred_step.DeferredStep(version, given, values)
    return _apply(version, (step, version.backward), *given)


def _reached_from(ctx: Any, have_gradients: Any) -> Any:
    """Which of the inputs with gradients are reached from the outputs that have gradients."""
    wanted = tuple(itertools.compress(have_gradients, ctx.bearing))
    if all(wanted) or len(wanted) != len(ctx.pullback.jaxpr.outvars):
        return ctx.reached
    if ctx.backward_function is vjp_functions.pull_back:
        return vjp_functions.reached_inputs(ctx.pullback, wanted)
    known = ctx.version.reached_from
    if wanted not in known:
        known[wanted] = vjp_functions.reached_inputs(ctx.pullback, wanted)
    return known[wanted]


def _outputs(ctx: Any, floats: Any, rest: Any) -> Any:
    unborne = (one for one, bears in zip(floats, ctx.bearing, strict=False) if not bears)
    ctx.mark_non_differentiable(*rest, *unborne)
    ctx.set_materialize_grads(False)
    floats, others = iter(floats), iter(rest)
    return tuple(next(floats) if is_float else next(others) for is_float in ctx.is_float)


def _take_from_step(ctx: Any) -> None:
    """Compute the forward pass of a recorded call, for a backward pass of its own."""
    step, ctx.step = ctx.step, None
    if deferral.current is step:
        deferral.settle()
    if step.pullback is None:
        raise RuntimeError(
            "Trying to backward through the graph a second time: the first backward pass was computed "
            "together with the forward pass. Specify `retain_graph=True` when calling `backward()` for the "
            "first time."
        )
    ctx.pullback, ctx.kinds = step.pullback, step.kinds
