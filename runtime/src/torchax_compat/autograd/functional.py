"""`jacobian`, `hessian`, `vjp` and others of `torch.autograd.functional` for torchax tensors, by JAX.

PyTorch's versions use the autograd graph, which does not contain torchax's computations: they return zeros.
The code of these functions is replaced, since programs may hold the functions already.
The results have no autograd graph; within a function that JAX differentiates, they have gradients.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import jax
from torch.autograd import functional

from ..adapters.torch_internals import pytree
from ..patches.declarations import TORCH, patch
from ..patches.function_code import code_that_calls
from ..tensor import arrays
from .func_transforms import ArrayFunction, are_on_torchax, array_of


class _At:
    """A function at its inputs: its values there, and their derivatives."""

    def __init__(self, function: Callable[..., Any], inputs: Any) -> None:
        self.is_tuple = isinstance(inputs, tuple)
        self.inputs = inputs if self.is_tuple else (inputs,)
        self.plain = ArrayFunction(function, self.inputs, {}, range(len(self.inputs)))
        self.values = self.plain.values()

    def outputs(self, values: Any) -> Any:
        """The arrays of the outputs."""
        return self.plain(*values)[0]

    def output(self, values: Any) -> Any:
        """The only output, as a scalar."""
        (value,) = self.outputs(values)
        return value.reshape(())

    def along(self, vectors: Any, like: Any) -> Any:
        """Vectors as arrays; as in PyTorch, they may be omitted for a single element."""
        if vectors is None:
            if len(like) != 1 or like[0].size != 1:
                raise RuntimeError(
                    "the vector `v` can only be omitted for a single tensor with a single element"
                )
            return [jax.numpy.ones_like(like[0])]
        return [array_of(one) for one in pytree.tree_leaves(vectors)]

    def as_inputs(self, values: Any) -> Any:
        """Arrays as tensors, in a tuple if the inputs are in one."""
        tensors = tuple(map(arrays.tensor, values))
        return tensors if self.is_tuple else tensors[0]


def _jacobian(
    func: Any,
    inputs: Any,
    create_graph: bool = False,  # noqa: ARG001 # torch's, for its graph
    strict: bool = False,  # noqa: ARG001 # torch's
    vectorize: bool = False,  # noqa: ARG001 # torch's
    strategy: Any = "reverse-mode",
) -> Any:
    at = _At(func, inputs)
    transform = jax.jacfwd if strategy == "forward-mode" else jax.jacrev
    rows = [at.as_inputs(row) for row in transform(at.outputs)(at.values)]
    return rows[0] if at.plain.shape.is_leaf() else tuple(rows)


def _hessian(
    func: Any,
    inputs: Any,
    create_graph: bool = False,  # noqa: ARG001 # torch's, for its graph
    strict: bool = False,  # noqa: ARG001 # torch's
    vectorize: bool = False,  # noqa: ARG001 # torch's
    outer_jacobian_strategy: Any = "reverse-mode",  # noqa: ARG001 # torch's
) -> Any:
    at = _At(func, inputs)
    rows = [at.as_inputs(row) for row in jax.hessian(at.output)(at.values)]
    return tuple(rows) if at.is_tuple else rows[0]


def _vjp(
    func: Any,
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,  # noqa: ARG001 # torch's, for its graph
    strict: bool = False,  # noqa: ARG001 # torch's
) -> Any:
    at = _At(func, inputs)
    made, pullback = jax.vjp(at.outputs, at.values)
    (found,) = pullback(at.along(v, made))
    return at.plain.result(made), at.as_inputs(found)


def _jvp(
    func: Any,
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,  # noqa: ARG001 # torch's, for its graph
    strict: bool = False,  # noqa: ARG001 # torch's
) -> Any:
    at = _At(func, inputs)
    made, changes = jax.jvp(at.outputs, (at.values,), (at.along(v, at.values),))
    return at.plain.result(made), at.plain.result(changes)


def _hvp(
    func: Any,
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,  # noqa: ARG001 # torch's, for its graph
    strict: bool = False,  # noqa: ARG001 # torch's
) -> Any:
    at = _At(func, inputs)
    (made, _), (_, found) = jax.jvp(jax.value_and_grad(at.output), (at.values,), (at.along(v, at.values),))
    return arrays.tensor(made), at.as_inputs(found)


def _or_by_torch(plain: Any, by_jax: Any) -> Any:
    def run(func: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        return (by_jax if are_on_torchax(inputs) else plain)(func, inputs, *args, **kwargs)

    return run


_WHY = "PyTorch's version returns zeros: its autograd graph does not contain torchax's computations."
_UPSTREAM = TORCH + "autograd/functional.py"


def _exchange(function: Callable[..., Any], by_jax: Any) -> None:
    """Declare that a function of torch's module runs `by_jax`, also where it was imported."""
    name = function.__name__
    plain = types.FunctionType(function.__code__, function.__globals__, name, function.__defaults__)
    own = f"_{name}_on_torchax"
    patch(f"torch.autograd.functional:{own}", why=_WHY, upstream=_UPSTREAM, is_new=True)(
        _or_by_torch(plain, by_jax)
    )
    patch(f"torch.autograd.functional:{name}.__code__", why=_WHY, upstream=_UPSTREAM)(code_that_calls(own))


_exchange(functional.jacobian, _jacobian)
_exchange(functional.hessian, _hessian)
_exchange(functional.vjp, _vjp)
_exchange(functional.jvp, _jvp)
_exchange(functional.hvp, _hvp)
_exchange(functional.vhp, _hvp)  # the same for real numbers
