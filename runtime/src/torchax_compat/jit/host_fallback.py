"""Torch functions whose shapes keep changing, run on the host in a function that runs call by call.

JAX compiles each of them for each shape, forward and backward: a step of a detector, with another number of
boxes for each batch, took a minute.
Functions that were called with many shapes run on the host if they have few elements, and torch's autograd
computes their gradients.
Functions that return views, write to their arguments, or draw random numbers do not run on the host.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.extend.core
import torch
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import DisableTorchFunction, no_dispatch, pytree
from ..autograd import gradient_hooks
from ..tensor import arrays, dynamic_shapes
from . import concrete_values

#: Functions whose result has a shape that depends on values.
_SIZED = frozenset(
    {
        *("argwhere", "bincount", "masked_select", "nonzero", "one_hot", "repeat_interleave", "tensor_split"),
        *("unique", "where"),
    }
)
#: Functions that return CPU tensors, which stay on the host.
_HALF_ON_HOST = frozenset({"_pack_padded_sequence", "_pad_packed_sequence"})
#: Functions that cannot run on the host, with the types of their arguments.
_refused: set[Any] = set()
#: How often each program was called with which shapes.
_counts: weakref.WeakKeyDictionary[Any, dict[Any, int]] = weakref.WeakKeyDictionary()
_trace: Any = None


class _RefusedError(Exception):
    """A call cannot run on the host."""


def note_trace() -> None:
    """Note the current trace: only calls in it run on the host, not those in a nested one."""
    global _trace
    _trace = jax.extend.core.get_opaque_trace_state()


def keeps_changing(call: Any, program: Any) -> bool:
    """Whether a call that is not compiled yet has new shapes again, and few elements."""
    if getattr(program.function, "__name__", "") in _HALF_ON_HOST:
        return False
    if concrete_values.is_active() and _asks(program.function, call.inputs):
        return False
    if jax.extend.core.get_opaque_trace_state() != _trace:
        return False
    count = sum(value.size for value in call.given)
    return 0 < count <= dynamic_shapes.few_numbers() and dynamic_shapes.keeps_changing(
        program, call.key, _counts
    )


def _asks(function: Callable[..., Any], tensors: Any) -> Any:
    """Whether a function needs a number of elements, which is an answer."""
    name = getattr(function, "__name__", "")  # the call of a module has none
    is_mask = name == "__getitem__" and any(tensor.dtype == torch.bool for tensor in tensors)
    return is_mask or name in _SIZED


def result_on_host(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of a torch function on the host, for traced tensors; None if it cannot run there."""
    leaves, tree = pytree.tree_flatten((args, kwargs))
    kind = function, tuple(map(type, leaves))
    if kind in _refused:
        return None
    run = _Run(function, leaves, tree)
    try:
        values = _through_host(run, [leaf.jax() for leaf in leaves if isinstance(leaf, (Tensor, View))])
    except Exception:  # an error of the function itself is raised again
        _refused.add(kind)
        return None
    return run.result(values)


class _Run:
    """A call on the host, and its backward pass."""

    def __init__(self, function: Callable[..., Any], leaves: Any, tree: Any) -> None:
        self._function, self._leaves, self._tree = function, leaves, tree

    def forth(self, values: Any, are_wanted: Any) -> Any:
        """The arrays of its results."""
        self._inputs = given = [dynamic_shapes.on_host(value) for value in values]
        for tensor, is_wanted in zip(given, are_wanted, strict=False):
            if tensor.is_complex():
                raise _RefusedError
            tensor.requires_grad_(is_wanted and tensor.is_floating_point())
        tensors = iter(given)
        leaves = [next(tensors) if isinstance(leaf, (Tensor, View)) else leaf for leaf in self._leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self._tree)
        state = torch.get_rng_state()
        with no_dispatch(), DisableTorchFunction(), torch.enable_grad():
            result = self._function(*args, **kwargs)
            if not torch.equal(state, torch.get_rng_state()):
                torch.set_rng_state(state)
                raise _RefusedError
            self._made, self._shape = pytree.tree_flatten(result)
            self._outputs = [one for one in self._made if isinstance(one, torch.Tensor)]
            memory = {tensor.untyped_storage().data_ptr() for tensor in given}
            if any(tensor._version for tensor in given) or any(
                one.untyped_storage().data_ptr() in memory for one in self._outputs
            ):
                raise _RefusedError
            self._arrays = [dynamic_shapes.on_device(one.detach()) for one in self._outputs]
            return self._arrays

    def back(self, gradients: Any) -> Any:
        """The gradients of its arguments, from those of its results; None for gradients that are zero."""
        known = [
            (out, g)
            for out, g in zip(self._outputs, gradients, strict=False)
            if g is not None and out.requires_grad
        ]
        wanted = [tensor for tensor in self._inputs if tensor.requires_grad]
        if not known or not wanted:
            return [None] * len(self._inputs)
        outputs = [out for out, _ in known]
        with no_dispatch(), DisableTorchFunction():
            given = [dynamic_shapes.on_host(g).to(out.dtype) for out, g in known]
            options = {"retain_graph": True, "allow_unused": True}
            found = iter(torch.autograd.grad(outputs, wanted, given, **options))  # tpulint: ignore[TPU611]
            each = [next(found) if tensor.requires_grad else None for tensor in self._inputs]
            return [None if one is None else dynamic_shapes.on_device(one) for one in each]

    def result(self, values: Any) -> Any:
        """The results, with those that JAX differentiates."""
        learns = torch.is_grad_enabled()
        found = (
            arrays.tensor(value if learns and one.requires_grad else array)
            for one, value, array in zip(self._outputs, values, self._arrays, strict=False)
        )
        leaves = [next(found) if isinstance(one, torch.Tensor) else one for one in self._made]
        return pytree.tree_unflatten(leaves, self._shape)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _through_host(run: Any, values: Any) -> Any:
    return _concrete(run, values, [False] * len(values))


def _concrete(run: Any, values: Any, are_wanted: Any) -> Any:
    if any(isinstance(value, jax.core.Tracer) for value in values):
        raise _RefusedError
    return run.forth(values, are_wanted)


def _forth(run: Any, values: Any) -> Any:
    return _concrete(run, [one.value for one in values], [one.perturbed for one in values]), None


def _back(run: Any, _: Any, gradients: Any) -> Any:
    if any(isinstance(one, jax.core.Tracer) for one in gradients):
        raise gradient_hooks.HookWhileTracingError
    is_zero = jax.custom_derivatives.SymbolicZero
    return (run.back([None if isinstance(one, is_zero) else one for one in gradients]),)


_through_host.defvjp(_forth, _back, symbolic_zeros=True)
