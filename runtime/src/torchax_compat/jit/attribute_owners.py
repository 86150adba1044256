"""The objects whose attributes a traced function may read and write: arguments, globals, hooks."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Sequence
from typing import Any

import torch

from ..adapters import torch_internals
from . import captured_objects, reachable_modules, tensor_objects


def owners(modules: Sequence[torch.nn.Module], leaves: Any, function: Any = None) -> Any:
    """The modules and program objects that a function gets or uses, with the objects that these hold."""
    own = [leaf for leaf in leaves if _is_own(leaf)]
    held = [one for one in attribute_values([*modules, *own]) if _is_own(one)]
    filled = objects_filled_by([hook for module in modules for hook in hooks_of(module)])
    known = captured_objects.captured(
        function, modules, leaves, {id(one.content) for one in filled if isinstance(one, Container)}
    )
    return list({id(one): one for one in (*modules, *own, *held, *filled, *known)}.values())


def attribute_values(objects: Any) -> Any:
    """The values of the objects' attributes."""
    return [
        value
        for one in objects
        for name, value in vars(one).items()
        if name not in reachable_modules.INTERNAL
    ]


class Container:
    """A dictionary or list, as an object that holds it."""

    def __init__(self, content: Any) -> None:
        self.content = content


_containers: dict[int, Container] = {}


def hooks_of(module: torch.nn.Module) -> Any:
    """The forward hooks and gradient hooks of a module."""
    gradients = (*module._backward_pre_hooks.values(), *module._backward_hooks.values())
    return [*module._forward_pre_hooks.values(), *module._forward_hooks.values(), *gradients]


def hooks_of_all(modules: Any) -> Any:
    """The forward hooks and gradient hooks of modules, most of which have none, and those of all modules."""
    return [
        *(hook for hooks in torch_internals.forward_hooks for hook in hooks.values()),
        *(
            hook
            for module in modules
            if module._forward_hooks
            or module._forward_pre_hooks
            or module._backward_hooks
            or module._backward_pre_hooks
            for hook in hooks_of(module)
        ),
    ]


def objects_filled_by(hooks: Any) -> Any:
    """The objects and containers that hooks can access, and may fill."""
    found: list[Any] = []
    for hook in hooks:
        known = [getattr(hook, "__self__", None)]
        function = getattr(hook, "__func__", hook)
        if isinstance(function, types.FunctionType):
            for cell in function.__closure__ or ():
                with contextlib.suppress(ValueError):
                    known.append(cell.cell_contents)
            known += [function.__globals__.get(name) for name in function.__code__.co_names]
        for one in known:
            if isinstance(one, (dict, list)):
                found.append(_containers.setdefault(id(one), Container(one)))
            elif _is_own(one) and not isinstance(one, (types.FunctionType, types.ModuleType)):
                found.append(one)
    return found


def with_containers(hooks: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Arguments with objects for containers that hooks fill, which must not be replaced by copies."""
    known = {id(one.content): one for one in objects_filled_by(hooks) if isinstance(one, Container)}
    return (
        [known.get(id(value), value) for value in args],
        {name: known.get(id(value), value) for name, value in kwargs.items()},
    )


def without_containers(args: Any, kwargs: dict[str, Any]) -> Any:
    """Arguments as the function expects them."""
    return tuple(_meant(value) for value in args), {name: _meant(value) for name, value in kwargs.items()}


def _meant(value: Any) -> Any:
    if isinstance(value, tensor_objects.Record):
        return value.made()
    return value.content if isinstance(value, Container) else value


def _is_own(one: Any) -> bool:
    of_library = type(one).__module__.partition(".")[0] in ("torch", "torchax", "jax", "numpy", "builtins")
    is_other = isinstance(one, (type, torch.nn.Module, torch.Tensor))
    return hasattr(one, "__dict__") and not of_library and not is_other
