"""Gradient hooks of modules and tensors in a decorated function.

The autograd graph has one node for such a function, so PyTorch cannot call hooks of
`register_full_backward_hook`, `h.register_hook` and `h.retain_grad()` within it.
So a tensor with a hook goes through an identity function, which gets its gradient from JAX in the backward
pass.
That backward pass is not compiled, so that a hook may run and return anything.
"""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from typing import Any

import jax
import torch
from torch.utils.hooks import BackwardHook, RemovableHandle
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import function_modes, get_backward_hooks, pytree
from ..patches.declarations import TORCH, patch
from ..tensor import arrays, deferral


class HookWhileTracingError(Exception):
    """The backward pass is compiled, but has to call a hook, or to write to a tensor that outlives it."""


#: The number of taps so far: a call that creates one cannot be compiled separately.
count = 0


def _through_tap(tap: Any, values: Any) -> Any:
    global count
    count += 1
    return _tapped(tap, values)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _tapped(_tap: Any, values: Any) -> Any:
    return values


def _forth(tap: Any, values: Any) -> Any:
    tap.is_reached = any(value.perturbed for value in values)
    return [value.value for value in values], None


def _back(tap: Any, _: Any, gradients: Any) -> Any:
    if any(isinstance(one, jax.core.Tracer) for one in gradients):
        raise HookWhileTracingError
    are_zero = [isinstance(one, jax.custom_derivatives.SymbolicZero) for one in gradients]
    given = [
        None if is_zero else arrays.tensor(jax.numpy.conj(one))  # PyTorch's convention for complex numbers
        for one, is_zero in zip(gradients, are_zero, strict=True)
    ]
    with arrays.entered(), torch.no_grad():
        found = given if all(are_zero) else tap.call_hooks(given)
    return ([_fitted(one, like) for one, like in zip(found, gradients, strict=False)],)


def _fitted(gradient: Any, like: Any) -> Any:
    if gradient is None:
        return jax.numpy.zeros(like.shape, like.dtype)
    return jax.numpy.conj(arrays.on_torchax(gradient).jax()).astype(like.dtype)


_tapped.defvjp(_forth, _back, symbolic_zeros=True)


def _is_traced(value: Any) -> bool:
    return isinstance(value, Tensor) and isinstance(value.jax(), jax.core.Tracer)


def _may_be_tapped(value: Any) -> bool:
    is_there = _is_traced(value) and _is_marked() and torch.is_grad_enabled()
    return is_there and jax.numpy.issubdtype(value.jax().dtype, jax.numpy.inexact)


def _is_marked() -> bool:
    """Whether a decorated function runs; other traced functions, as for a Jacobian, call no hooks."""
    return any(getattr(mode, "calls_gradient_hooks", False) for mode in function_modes())


class _Tap:
    """The hooks on the gradient of one tensor."""

    is_reached = False

    def __init__(self) -> None:
        self.hooks: OrderedDict[int, Any] = OrderedDict()
        self.keeper: weakref.ref[torch.Tensor] | None = None

    def call_hooks(self, gradients: Any) -> Any:
        (gradient,) = gradients
        for hook in list(self.hooks.values()):
            found = hook(gradient)
            gradient = gradient if found is None else found
        kept = self.keeper() if self.keeper is not None else None
        if kept is not None:
            kept.grad = gradient if kept.grad is None else kept.grad + gradient
        return [gradient]


def note_use(arguments: Any) -> None:
    """Note that tensors are used in a computation."""
    for one in arguments:
        if isinstance(one, (list, tuple)):
            note_use(one)
        elif type(one) is Tensor:
            one.is_used = True  # an attribute: torch cannot swap tensors with weak references


def _tap_of(tensor: torch.Tensor) -> Any:
    """The tap of a tensor; computations that use the tensor later go through it."""
    if getattr(tensor, "tap", None) is None:
        if getattr(tensor, "is_used", False):
            raise RuntimeError(
                "`register_hook` and `retain_grad` must be called before the tensor is used, in a function "
                "that is decorated with `@differentiable`"
            )
        tensor.tap = _Tap()
        (value,) = _through_tap(tensor.tap, [tensor.jax()])
        arrays.put(tensor, value)
    return tensor.tap


_register_hook, _retain_grad = torch.Tensor.register_hook, torch.Tensor.retain_grad


_WHY = (
    "The autograd graph has one node for a whole decorated function, so PyTorch cannot call hooks within it."
)


@patch(
    "torchax.tensor:Tensor.register_hook",
    why=_WHY,
    upstream=TORCH + "_tensor.py",
)
def _hooked(tensor: torch.Tensor, hook: Any) -> Any:
    """`tensor.register_hook`."""
    if _is_traced(tensor) and not _is_marked():
        return RemovableHandle(OrderedDict())
    if not _may_be_tapped(tensor):
        deferral.note_change()
        return _register_hook(tensor, hook)
    tap = _tap_of(tensor)
    handle = RemovableHandle(tap.hooks)
    tap.hooks[handle.id] = hook
    return handle


@patch(
    "torchax.tensor:Tensor.retain_grad",
    why=_WHY,
    upstream=TORCH + "_tensor.py",
)
def _retained(tensor: torch.Tensor) -> None:
    """`tensor.retain_grad()`."""
    if _may_be_tapped(tensor):
        _tap_of(tensor)
    else:
        _retain_grad(tensor)


def retain_gradient(tensor: torch.Tensor, tap: Any) -> None:
    """Store the gradient that reaches a tap as that of a tensor."""
    tap.keeper = weakref.ref(tensor)


@patch(
    "torch.nn.modules.module:BackwardHook",
    why=_WHY,
    upstream=TORCH + "utils/hooks.py",
)
class _Hooks(BackwardHook):
    """The gradient hooks of one call of a module."""

    is_traced = is_apart = False

    def setup_input_hook(self, args: Any) -> Any:
        leaves = pytree.tree_leaves(args)
        self.is_traced = any(map(_may_be_tapped, leaves))
        self.is_apart = not _is_marked() and any(map(_is_traced, leaves))
        if self.is_apart:
            return args
        if not self.is_traced:
            return super().setup_input_hook(args)
        self.inputs, args = _through(_Sides(self._of_inputs), args)
        return args

    def setup_output_hook(self, result: Any) -> Any:
        if self.is_apart:
            return result
        if not self.is_traced:
            return super().setup_output_hook(result)
        self.outputs, result = _through(_Sides(self._of_outputs), result)
        return result

    def _of_outputs(self, gradients: Any) -> Any:
        self.gradients = tuple(gradients)
        for hook in self.user_pre_hooks:
            found = hook(self.module, self.gradients)
            self.gradients = self.gradients if found is None else _as_tuple(found)
        if not self.inputs.is_reached:
            self._of_inputs([None] * self.inputs.count)
        return self.gradients

    def _of_inputs(self, gradients: Any) -> Any:
        gradients = tuple(gradients)
        for hook in self.user_hooks:
            found = hook(self.module, gradients, self.gradients)
            gradients = gradients if found is None else _as_tuple(found)
        return gradients


class _Sides:
    """The hooks on the gradients of all inputs, or of all outputs, of a module call."""

    is_reached, count = False, 0
    are_tapped: list[bool]

    def __init__(self, hooks: Any) -> None:
        self._hooks = hooks

    def call_hooks(self, gradients: Any) -> Any:
        all_of_them = iter(gradients)
        given = [next(all_of_them) if is_there else None for is_there in self.are_tapped]
        found = self._hooks(given)
        return [one for one, is_there in zip(found, self.are_tapped, strict=False) if is_there]


def _through(sides: Any, values: Any) -> Any:
    """A value whose tensors have passed a tap."""
    leaves, tree = pytree.tree_flatten(values)
    tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    for i in tensors:
        if isinstance(leaves[i], View):
            leaves[i] = leaves[i].torch()
    sides.count, sides.are_tapped = len(tensors), [_may_be_tapped(leaves[i]) for i in tensors]
    tapped = [i for i, is_there in zip(tensors, sides.are_tapped, strict=True) if is_there]
    for i, value in zip(tapped, _through_tap(sides, [leaves[i].jax() for i in tapped]), strict=True):
        leaves[i] = arrays.tensor(value)
    return sides, pytree.tree_unflatten(leaves, tree)


def _as_tuple(value: Any) -> Any:
    return value if isinstance(value, tuple) else (value,)


_get_hooks = get_backward_hooks


@patch(
    "torch.nn:Module._get_backward_hooks",
    why="PyTorch calls non-full hooks from the autograd node of the last operation, which JAX has none of.",
    upstream=TORCH + "nn/modules/module.py",
)
def _hooks_of(module: torch.nn.Module) -> Any:
    """The gradient hooks of a module; in a decorated function, non-full hooks are treated as full ones."""
    full, others = _get_hooks(module)
    if others and _is_marked():
        return [*full, *(functools.partial(_of_old_kind, hook) for hook in others)], []
    return full, others


def _of_old_kind(hook: Any, module: torch.nn.Module, of_inputs: Any, of_outputs: Any) -> Any:
    """Call a non-full hook: it gets the gradients of the last operation, not always of the inputs."""
    is_one = not any(True for _ in module.children()) and not isinstance(module, torch.nn.Linear)
    return hook(module, of_inputs if is_one else (None,) * len(of_inputs), of_outputs)
