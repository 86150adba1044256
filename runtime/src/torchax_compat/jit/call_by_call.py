"""The calls in a function that cannot be compiled as a whole, compiled one by one.

If a function needs the value of a tensor, or draws random numbers on the host, its own statements run one by
one.
Modules that it calls are compiled nevertheless.
If a module cannot be compiled, the modules within it are, and otherwise the torch functions: JAX
differentiates a compiled one in a fraction of the time.

Modules that are called without gradients, or in evaluation mode, are compiled if it pays off: once their
calls with the same shapes have taken as long as compiling may take, or calls with new shapes take longer than
that.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import jax
import torch
import torchax
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import function_modes, pytree
from ..autograd import frozen_parameters, gradient_hooks, higher_order, no_grad, requires_grad
from ..patches.declarations import TORCH, patch
from ..ranks import local_tensor
from ..tensor import arrays, memory_format, module_to
from . import (
    active_programs,
    aliasing,
    attribute_owners,
    concrete_values,
    deferred_scalars,
    host_fallback,
    host_random,
    host_tensor_writes,
    padded_sequences,
    program,
    reachable_modules,
)

#: Functions that compute nothing, or only a value on the host.
_NOT_COMPUTING = frozenset(
    {
        *("__get__", "__set__", "__delete__", "__repr__", "__str__", "__format__", "__len__", "__hash__"),
        *("__bool__", "__int__", "__float__", "__index__", "item", "tolist", "numpy", "cpu", "to", "type"),
        *("size", "dim", "numel", "is_floating_point", "is_complex", "data_ptr", "backward"),
        *("requires_grad_", "retain_grad", "detach"),
    }
)

_HOST = ("cpu", torch.device("cpu"))

_call = torch.nn.Module.__call__
_functions: dict[Any, program.Program] = {}  # the compiled versions of torch functions


@patch(
    "torch.nn:Module.__call__",
    why="Each operation of a module would run on its own: JAX compiles a call of a module as a whole.",
    upstream=TORCH + "nn/modules/module.py",
)
def call_module(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    """`Module.__call__`."""
    if local_tensor.are_among((args, kwargs)):
        return local_tensor.CALLS["module"](module, args, kwargs)
    programs = active_programs.state.programs
    if programs is None or any(hasattr(mode, "record") for mode in function_modes()):
        return _call(module, *args, **kwargs)
    known = programs.by_module.get(id(module))
    if known is not None:
        return known(args, kwargs)
    if programs is not active_programs.OUTSIDE or (
        torch.is_grad_enabled() and _may_learn(module, args, kwargs)
    ):
        return _call(module, *args, **kwargs)
    modules = list(module.modules())
    if any(map(attribute_owners.hooks_of, modules)):  # they may fill containers outside of these modules
        return _call(module, *args, **kwargs)
    programs = vars(module).get(reachable_modules.EVALUATED) or active_programs.Programs(hesitates=True)
    vars(module)[reachable_modules.EVALUATED] = programs
    with program.compiled(programs, modules, lambda: attribute_owners.owners(modules, ())):
        return call_module(module, *args, **kwargs)


def _may_learn(module: torch.nn.Module, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether gradients may be needed of a call outside of decorated functions."""
    leaves = pytree.tree_leaves((args, kwargs))
    return module.training or any(leaf.requires_grad for leaf in leaves if isinstance(leaf, torch.Tensor))


class Calls(no_grad.NoGradMode):
    """Gives `torch.no_grad()` its effect on JAX's gradients, and compiles torch functions."""

    calls_gradient_hooks = True  # to hooks of torch's backward pass

    def __init__(self, freezing: Any) -> None:
        super().__init__()
        self._written, self._freezing = host_tensor_writes.HostTensors(), freezing
        host_fallback.note_trace()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if concrete_values.is_replaying():
            padded_sequences.check_caller(args, sys._getframe(1))
        func, args, kwargs = self._written.latest(func, module_to.latest(args), kwargs or {})
        if args and type(args[0]) is torch.Tensor and _is_traced((args[1:], kwargs)):
            # In a function that runs call by call, copies to the host stay on the device.
            func, args = self._written.writing(func, args, OnHost if _is_whole() else Tensor)
        result = self._called(func, types, args, kwargs)
        self._written.note(result, (args, kwargs))
        return result

    def _called(self, func: Any, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if func is torch.autograd.grad or (higher_order.is_backward(func) and _is_traced(args)):
            raise higher_order.NotRecordedError
        if concrete_values.is_active():
            if _is_copy_to_host(func, args, kwargs) and isinstance(args[0], (Tensor, View)):
                concrete_values.session().has_copies = True
            drawn = host_random.drawn_by_torch(func, args, kwargs)
            if drawn is not None:
                return drawn
            args, kwargs = deferred_scalars.for_computation(host_random.in_tensors((args, kwargs)))
        if func.__name__ not in _NOT_COMPUTING:
            gradient_hooks.note_use(args)
        if frozen_parameters.sets_requires_grad(func):
            self._freezing.set(*args, **kwargs)
        plain = functools.partial(super().__torch_function__, func, types)
        if func == requires_grad.ASKS and _is_traced(args):
            return plain(args, kwargs) or requires_grad.is_differentiated(aliasing.root(args[0])[0].jax())
        if _is_whole():
            if _is_copy_to_host(func, args, kwargs) and _is_traced(args):
                return OnHost(arrays.on_torchax(args[0]).jax(), torchax.default_env())
            return plain(args, kwargs)
        if not _is_traced((args, kwargs)):
            with program.evaluating():
                return plain(args, kwargs)
        if _is_copy_to_host(func, args, kwargs):
            return args[0]  # tensors that JAX differentiates have no copy there
        if func.__name__ in _NOT_COMPUTING:
            return plain(args, kwargs)
        if any(type(one) is torch.Tensor for one in args) and not func.__name__.endswith("_"):
            args = [one.to("jax") if type(one) is torch.Tensor else one for one in args]
        known = _functions.get(func)
        if known is None:
            known = _functions[func] = program.Program(func)
        with no_grad.hidden_writes(args, kwargs):
            made = known(args, kwargs, plain)
        return (
            made
            if func.__name__.endswith("_")
            else memory_format.with_layout_of_arguments(made, func, args, kwargs)
        )


def _is_whole() -> bool:
    """Whether the running function is compiled as a whole, not call by call."""
    programs = active_programs.state.programs
    return programs is None or programs is active_programs.OUTSIDE


class OnHost(Tensor):
    """A copy to the host in a function that is compiled as a whole: its result is copied to the host."""


def _is_copy_to_host(func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    if func is torch.Tensor.cpu:
        return True
    places = (*args[1:], *kwargs.values()) if func is torch.Tensor.to else ()
    return len(places) == 1 and places[0] in _HOST


def _is_traced(value: Any) -> bool:
    """Whether one of the arguments is a tensor that JAX differentiates."""
    if isinstance(value, (list, tuple)):
        return any(map(_is_traced, value))
    if isinstance(value, dict):
        return any(map(_is_traced, dict.values(value)))
    value = aliasing.root(value)[0]
    return isinstance(value, Tensor) and isinstance(getattr(value, "_of", value)._elem, jax.core.Tracer)
