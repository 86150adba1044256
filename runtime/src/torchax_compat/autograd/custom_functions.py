"""Custom `torch.autograd.Function`s of tensors that JAX traces.

`forward` computes the results, and `backward` the gradients, which JAX compiles.

- A `backward` that computes the forward pass again, as checkpointing does, is not called: JAX differentiates
  `forward` instead.
- A `backward` that writes to tensors, such as a memory bank, is not compiled; the tensors keep what it wrote.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import inspect
import sys
import warnings
from typing import Any

import jax
import torch
import torchax
from torch.autograd.function import FunctionCtx
from torchax.tensor import Tensor

from ..adapters.torch_internals import function_modes, is_setup_context_defined, pytree
from ..jit import reachable_modules
from ..patches.declarations import TORCH, patch
from ..tensor import arrays
from . import gradient_hooks

#: Names that a `backward` uses if it computes the forward pass again for PyTorch's autograd.
_RECOMPUTES = {"enable_grad", "set_grad_enabled"}
_apply = torch.autograd.Function.apply.__func__


def _applied(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """`Function.apply`."""
    if not torch.is_grad_enabled() or not any(map(arrays.is_traced, args)):
        return _apply(cls, *args, **kwargs)
    if is_setup_context_defined(cls.setup_context):
        bound = inspect.signature(cls.forward).bind(*args, **kwargs)
        bound.apply_defaults()
        args = bound.args
    run = _through if _recomputes(cls.backward) else _called
    for mode in function_modes():
        if hasattr(mode, "record"):  # `higher_order.Recorder`
            return mode.record(functools.partial(run, cls), args)
    return run(cls, *args)


patch(
    "torch.autograd:Function.apply",
    why="JAX differentiates the operations in `forward`, and does not call `backward`.",
    upstream=TORCH + "autograd/function.py",
)(classmethod(_applied))


def _is_inexact(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _recomputes(backward: Any) -> bool:
    return not _RECOMPUTES.isdisjoint(reachable_modules.names(inspect.unwrap(backward).__code__))


@functools.lru_cache
def _may_write(code: Any) -> bool:
    """Whether a function calls in-place methods, or assigns to elements."""
    names = reachable_modules.names(code)
    return any(name.endswith("_") and not name.startswith("_") for name in names) or any(
        instruction.opname == "STORE_SUBSCR" for instruction in dis.get_instructions(code)
    )


class _Context(FunctionCtx):
    """The argument `ctx` of `forward` and `backward`."""

    to_save = ()
    materialize_grads = True

    @property
    def saved_tensors(self) -> Any:
        return tuple(self.to_save)

    saved_variables = saved_tensors  # its old name


def _forward(cls: Any, ctx: Any, args: Any) -> Any:
    if not is_setup_context_defined(cls.setup_context):
        return cls.forward(ctx, *args)
    results = cls.forward(*args)
    cls.setup_context(ctx, args, results)
    return results


def _through(cls: Any, *args: Any) -> Any:
    """Differentiate `forward` itself, as if it did not run under `torch.no_grad()`."""
    code, enter = cls.forward.__code__, torch.no_grad.__enter__

    def entering(self: Any) -> Any:
        if sys._getframe(1).f_code is not code:
            return enter(self)
        self.prev = torch.is_grad_enabled()
        return None

    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", "None of the inputs have requires_grad")
        stack.callback(setattr, torch.no_grad, "__enter__", enter)
        torch.no_grad.__enter__ = entering
        return _forward(cls, _Context(), args)


def _called(cls: Any, *args: Any) -> Any:
    """Run `forward`; its results get their gradients from `backward`."""
    if _may_write(inspect.unwrap(cls.backward).__code__):
        gradient_hooks.count += 1
    given = {i: arrays.on_torchax(value).jax() for i, value in enumerate(args) if _is_inexact(value)}
    ctx = _Context()
    ctx.needs_input_grad = tuple(i in given for i in range(len(args)))
    with torch.no_grad():
        results = _forward(cls, ctx, args)
    outputs = list(results) if isinstance(results, tuple) else [results]
    fixed = {id(value) for value in getattr(ctx, "non_differentiable", ())}
    dirty = {id(value) for value in getattr(ctx, "dirty_tensors", ())}
    values = {
        i: jax.lax.stop_gradient(arrays.on_torchax(value).jax())
        for i, value in enumerate(outputs)
        if _is_inexact(value) and id(value) not in fixed
    }
    saved = _Saved(cls, ctx, given, values)
    saved.take(args, outputs, dirty)
    attached = _attached(saved, list(given.values()), list(values.values()), saved.values)
    for i, value in zip(values, attached, strict=True):
        if id(outputs[i]) in dirty:
            arrays.put(outputs[i], value)
        else:
            outputs[i] = arrays.tensor(value)
    return tuple(outputs) if isinstance(results, tuple) else outputs[0]


class _Saved:
    """All that `backward` reads except for the values of tensors, which JAX passes when it calls it."""

    def __init__(self, cls: Any, ctx: Any, given: Any, outputs: Any) -> None:
        self.cls, self.count = cls, len(ctx.needs_input_grad)
        self.given, self.outputs = list(given), list(outputs)
        self.kinds = [value.aval for value in given.values()]
        self.leaves, self.tree = pytree.tree_flatten(vars(ctx))
        #: Where tensors among the leaves come from.
        self.inputs: dict[int, int] = {}
        self.results: dict[int, int] = {}
        self.others: list[int] = []
        #: Indices and values of sparse matrices among the leaves, by position.
        self.patterns: dict[int, tuple[int, int]] = {}
        #: Values of tensors among the leaves, and the tensors by position.
        self.values: list[jax.Array] = []
        self.places: dict[int, torch.Tensor] = {}

    def take(self, args: Any, outputs: Any, dirty: Any) -> None:
        """Set aside the values of tensors, which belong to the trace of `forward`."""
        for place, leaf in enumerate(self.leaves[:]):
            if isinstance(leaf, Tensor) and getattr(leaf, "pattern", None) is not None:
                self.patterns[place] = len(self.leaves), len(self.leaves) + 1
                self.leaves += leaf.pattern
        inputs = {id(args[i]): k for k, i in enumerate(self.given) if id(args[i]) not in dirty}
        results = {id(outputs[i]): k for k, i in enumerate(self.outputs)}
        for place, leaf in enumerate(self.leaves):
            if not isinstance(leaf, (Tensor, torchax.view.View)):
                continue
            if id(leaf) in inputs:
                self.inputs[place] = inputs[id(leaf)]
            elif id(leaf) in results:
                self.results[place] = results[id(leaf)]
            else:
                self.others.append(place)
                self.values.append(jax.lax.stop_gradient(arrays.on_torchax(leaf).jax()))
            self.leaves[place], self.places[place] = None, leaf
        self.shapes = [
            arrays.on_torchax(v).jax().aval if isinstance(v, torch.Tensor) else None for v in outputs
        ]
        modules = reachable_modules.modules_of(self.cls.backward, self.leaves)
        held = [held for m in modules for held in (*m._parameters.values(), *m._buffers.values())]
        self.held = list({id(one): one for one in held if arrays.is_traced(one)}.values())
        self.values += [jax.lax.stop_gradient(one.jax()) for one in self.held]

    def backward(self, kept: Any, gradients: Any) -> Any:
        """The gradients of the inputs."""
        inputs, results, values = kept
        leaves, ctx = list(self.leaves), _Context()
        for place, value in zip(
            (*self.inputs, *self.results, *self.others), (*inputs, *results, *values), strict=False
        ):
            leaves[place] = arrays.tensor(value)
        before = {place: (leaves[place], leaves[place].jax()) for place in self.places}
        for place, parts in self.patterns.items():
            leaves[place].pattern = tuple(leaves[part] for part in parts)
        ctx.__dict__.update(pytree.tree_unflatten(leaves[: self.tree.num_leaves], self.tree))
        known = dict(zip(self.outputs, gradients, strict=False))
        with contextlib.ExitStack() as stack:
            stack.enter_context(arrays.entered())
            stack.enter_context(torch.enable_grad())
            for one, value in zip(self.held, values[len(self.others) :], strict=False):
                stack.callback(_put_back, one, one.jax(), value)
                arrays.put(one, value)
            found = self.cls.backward(ctx, *(self._gradient(i, known, ctx) for i in range(len(self.shapes))))
            found = found if isinstance(found, tuple) else (found,)
            for place, (one, value) in before.items():
                if one.jax() is not value:
                    _leave(self.places[place], one.jax())
            return [self._fitted(found[i], kind) for i, kind in zip(self.given, self.kinds, strict=True)]

    def _gradient(self, i: Any, known: Any, ctx: Any) -> Any:
        value, shape = known.get(i), self.shapes[i]
        if value is not None and not isinstance(value, jax.custom_derivatives.SymbolicZero):
            return arrays.tensor(jax.numpy.conj(value))  # PyTorch's convention; no change for real numbers
        if shape is None or not ctx.materialize_grads:
            return None
        return arrays.tensor(jax.numpy.zeros(shape.shape, shape.dtype))

    def _fitted(self, gradient: Any, kind: Any) -> Any:
        """A gradient with the shape and dtype of its input; PyTorch sums one that was broadcast."""
        if gradient is None:
            return None
        gradient = arrays.on_torchax(gradient)
        if gradient.shape != kind.shape:
            gradient = gradient.sum_to_size(kind.shape)
        return jax.numpy.conj(gradient.jax()).astype(kind.dtype)


def _put_back(tensor: torch.Tensor, before: Any, value: Any) -> None:
    """Restore the array of a module's tensor, and keep a value that `backward` wrote to it."""
    written = tensor.jax()
    arrays.put(tensor, before)
    if written is not value:
        _leave(tensor, written)


def _leave(tensor: torch.Tensor, value: Any) -> None:
    """Write the value that `backward` wrote to a tensor to that tensor, if it still exists."""
    if arrays.is_traced(tensor):
        return  # it was created while `forward` was traced
    if isinstance(value, jax.core.Tracer):
        raise gradient_hooks.HookWhileTracingError
    if isinstance(tensor, torchax.view.View):
        with torch.no_grad():
            tensor.copy_(arrays.tensor(value))
    else:
        arrays.put(tensor, value)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attached(_saved: Any, _given: Any, outputs: Any, _values: Any) -> Any:
    """The outputs, whose gradients `backward` computes."""
    return outputs


def _attached_and_kept(saved: Any, given: Any, outputs: Any, values: Any) -> Any:
    given, outputs, values = jax.tree.map(
        lambda primal: primal.value,
        (given, outputs, values),
        is_leaf=lambda leaf: isinstance(leaf, jax.custom_derivatives.CustomVJPPrimal),
    )
    results = _attached(saved, given, outputs, values)  # for derivatives of these gradients
    kept = [given[k] for k in saved.inputs.values()], [results[k] for k in saved.results.values()], values
    return results, kept


def _pulled_back(saved: Any, kept: Any, gradients: Any) -> Any:
    return saved.backward(kept, gradients), None, None


_attached.defvjp(_attached_and_kept, _pulled_back, symbolic_zeros=True)
