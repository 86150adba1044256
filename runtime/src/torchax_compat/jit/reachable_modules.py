"""The modules that a function can access, and the trainable tensors outside of modules."""

from __future__ import annotations

import contextlib
import dis
import functools
import itertools
import sys
import sysconfig
import types
from collections.abc import Callable
from typing import Any

import torch
from torchax.tensor import Tensor

from ..adapters.torch_internals import DisableTorchFunction
from . import contents

#: Types that are not searched for modules.
_WITHOUT_MODULES = {bool, int, float, str, type(None), type, types.ModuleType, types.BuiltinFunctionType}
_WITHOUT_MODULES |= {Tensor, torch.Tensor, torch.dtype, torch.device}
#: The attribute of a module for its compiled versions.
EVALUATED = "_torchax_evaluated"
#: The attributes that every module has.
INTERNAL = frozenset({*vars(torch.nn.Module()), EVALUATED})
#: The name of the runtime's package, which may be a copy within another package.
PACKAGE = __package__.rpartition(".")[0]

_LIBRARIES = {"torch", "torchax", "jax", "numpy", "builtins", PACKAGE}
#: The folders of Python's files, and of installed packages.
PATHS_OF_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


def modules_of(function: Callable[..., Any], leaves: Any) -> Any:
    """The modules that a function can access by its arguments, globals and closure, with their submodules."""
    return modules_and_tensors(function, leaves)[0]


def modules_and_tensors(
    function: Callable[..., Any] | None, leaves: Any, read: contents.Contents | None = None
) -> Any:
    """The modules that a function can access, and the trainable tensors that belong to none of them.

    Such tensors are globals, or attributes of other objects, such as the temperature of an agent.
    What the search reads is added to `read`, with all attributes of the modules.
    """
    found, tensors, seen = {}, {}, set()
    read = read or contents.Contents()

    def visit(value: Any, depth: int) -> None:
        if type(value) is Tensor:
            tensors[id(value)] = value
            return
        if type(value) in _WITHOUT_MODULES or id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, torch.nn.Module):
            found[id(value)] = value
            read.module(value)
            for module in value._modules.values():
                visit(module, depth)
            kind: Any = type(value)
            if not contents.is_of_torch(value):
                for names_, name in _named_by(kind):
                    read.name(names_, name)
                    visit(names_.get(name), 0)
                held = vars(value)
                # In the same order in all processes, unlike the difference of two sets.
                for name in [name for name in held if name not in INTERNAL]:
                    visit(held[name], 0)
        elif isinstance(value, types.MethodType):
            visit(value.__func__, depth)
            visit(value.__self__, depth)
        elif isinstance(value, types.FunctionType):
            if value.__globals__.get("__name__", "").partition(".")[0] not in _LIBRARIES:
                for name in names(value.__code__):
                    if name in value.__globals__:
                        read.name(value.__globals__, name)
                        visit(value.__globals__[name], depth)
            for cell in value.__closure__ or ():
                read.cell(cell)
                with contextlib.suppress(ValueError):
                    visit(cell.cell_contents, depth)
        elif isinstance(value, functools.partial):
            for item in (value.func, *value.args, *value.keywords.values()):
                visit(item, depth)
        elif _is_wrapper(value):
            visit(value.__wrapped__, depth)
        elif isinstance(value, (torch.utils.data.Dataset, torch.utils.data.DataLoader)):
            return
        elif isinstance(value, (list, tuple, set)):
            read.items(value)
            for item in itertools.islice(value, contents.MOST_ITEMS):
                visit(item, depth)
        elif isinstance(value, dict):
            read.values(value)
            for item in itertools.islice(dict.values(value), contents.MOST_ITEMS):
                visit(item, depth)
        elif (
            depth
            and hasattr(value, "__dict__")
            and not isinstance(value, (type, types.ModuleType, torch.Tensor))
        ):
            read.values(vars(value))
            for item in list(vars(value).values()):
                visit(item, depth - 1)
            # methods
            for base in type(value).__mro__[:-1]:
                if not base.__module__.startswith(("torch", "builtins")):
                    for item in vars(base).values():
                        if isinstance(item, types.FunctionType) or _is_wrapper(item):
                            visit(item, depth - 1)

    visit(function, 2)
    for leaf in leaves:
        if type(leaf) is not Tensor:
            visit(leaf, 2)
    with DisableTorchFunction():
        learned = [one for one in tensors.values() if one.requires_grad and one.is_leaf]
    return list(found.values()), sorted(learned, key=id)


def _is_wrapper(value: Any) -> bool:
    """Whether a value is an object around a function, as created by decorators that are classes."""
    return "__wrapped__" in getattr(value, "__dict__", ())


@functools.cache
def names(code: Any) -> Any:
    """The names of globals and attributes in code, and in that of functions within it."""
    inner = [names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return tuple(dict.fromkeys(itertools.chain(code.co_names, *inner)))


@functools.cache
def global_names(code: Any) -> Any:
    """The globals that code, and that of functions within it, reads or writes."""
    own = (one.argval for one in dis.get_instructions(code) if one.opname.endswith(("_GLOBAL", "LOAD_NAME")))
    inner = [global_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return tuple(dict.fromkeys(itertools.chain(own, *inner)))


def globals_of(cls: Any) -> Any:
    """The namespace of the file that defines a class."""
    file = sys.modules.get(cls.__module__)
    return {"__name__": cls.__module__} if file is None else vars(file)


def is_of_library(names: Any) -> bool:
    """Whether the namespace of a file belongs to an installed package, not to the program."""
    name, path = names.get("__name__", ""), names.get("__file__")
    if name.partition(".")[0] in _LIBRARIES:
        return True
    return path is not None and str(path).startswith(PATHS_OF_LIBRARIES)


@functools.cache
def _named_by(cls: Any) -> Any:
    """The globals by which methods of a class access modules and tensors."""
    found, seen, waiting = {}, set(), []
    for base in cls.__mro__:
        if not is_of_library(globals_of(base)):
            waiting += [one for one in vars(base).values() if isinstance(one, types.FunctionType)]
    while waiting:
        function = waiting.pop()
        held = function.__globals__
        if function in seen or is_of_library(held):
            continue
        seen.add(function)
        for name in global_names(function.__code__):
            value = held.get(name)
            items: Any = dict.values(value) if isinstance(value, dict) else value
            items = items if isinstance(value, (list, tuple, dict)) else [value]
            if isinstance(value, types.FunctionType):
                waiting.append(value)
            elif any(
                isinstance(one, (torch.nn.Module, Tensor))
                for one in itertools.islice(items, contents.MOST_ITEMS)
            ):
                found[id(held), name] = held, name
    return tuple(found.values())


def modules_used_by(module: torch.nn.Module) -> Any:
    """The modules that a module uses but does not hold: globals, and variables of closures that it holds."""
    held = list(module.modules())
    named = [names.get(name) for cls in dict.fromkeys(map(type, held)) for names, name in _named_by(cls)]
    named += [one for part in held for one in vars(part).values() if isinstance(one, types.FunctionType)]
    if not named:
        return []
    of_itself = set(map(id, held))
    return [one for one in modules_and_tensors(None, named)[0] if id(one) not in of_itself]
