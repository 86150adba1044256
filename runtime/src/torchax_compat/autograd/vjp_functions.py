"""JAX's pullbacks, which compute gradients: the inputs that they reach, and the outputs that matter."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.extend.core

from . import complex_numbers


def reached_inputs(pullback: Any, wanted: Any = None) -> Any:
    """For each input that JAX differentiates, whether the outputs, or the `wanted` ones, depend on it."""
    program = pullback.jaxpr
    outputs = program.outvars if wanted is None else itertools.compress(program.outvars, wanted)
    needed = {v for v in outputs if isinstance(v, jax.extend.core.Var)}
    for equation in reversed(program.eqns):
        if not needed.isdisjoint(equation.outvars):
            needed.update(v for v in equation.invars if isinstance(v, jax.extend.core.Var))
    # Since JAX 0.11, residuals of the forward pass precede the inputs.
    first = len(program.invars) - pullback.in_tree.num_leaves
    return tuple(v in needed for v in program.invars[first:])


def differentiable_outputs(pullback: Any, count: int) -> Any:
    """For each output, whether it depends on an input that JAX differentiates."""
    is_zero, program = pullback.fun.args[1:3]
    bears = [not zero for zero in is_zero]
    return bears if (len(bears), sum(bears)) == (count, len(program.outvars)) else [True] * count


def pull_back(pullback: Any, gradients: Any, kinds: Any, reached: Any) -> Any:
    """The gradients of the inputs that are reached, from those of the outputs; None means zero."""
    gradients = [
        jax.numpy.zeros(k.shape, k.dtype) if g is None else g for g, k in zip(gradients, kinds, strict=False)
    ]
    (found,) = pullback(complex_numbers.conjugated(gradients))
    return complex_numbers.conjugated(itertools.compress(found, reached))
