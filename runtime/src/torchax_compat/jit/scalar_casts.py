"""`float(x)`, `int(x)` and `math.exp(x)` of numbers that are read from tensors, in the program's files.

Python converts the result of `__float__` to a plain float.
So while a function is traced, or runs to record how its numbers are used, these names stand for classes that
return placeholders.
In a file that uses such a name for anything but calls and checks of a value's class, it keeps its meaning.
The functions of `math`, and those that draw random numbers (`host_random.py`), are replaced in the same way,
in these files and in their own modules.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import math
import random
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torchax.tensor import Tensor
from torchax.view import View

from . import deferred_scalars, host_random, reachable_modules

_called_only: dict[Any, Any] = {}
_FUNCTIONS = {**deferred_scalars.MATHEMATICS, **host_random.DRAWING}
_KINDS = (types.BuiltinFunctionType, types.MethodType)


class _StandIn(type):
    """The metaclass of the replacements for `float` and `int`."""

    def __call__(cls, *args: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], (Tensor, View)):
            args = (args[0].item(),)
        return deferred_scalars.cast(cls.__base__, *args)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.__bases__)

    def __subclasscheck__(cls, other: Any) -> bool:
        return issubclass(other, cls.__bases__)

    def __eq__(cls, other: Any) -> bool:
        return other is cls.__base__ or other is cls

    def __hash__(cls) -> int:
        return hash(cls.__base__)


_STAND_INS = {kind.__name__: _StandIn(kind.__name__, (kind,), {}) for kind in (float, int)}


@contextlib.contextmanager
def replaced(function: Callable[..., Any], modules: Sequence[torch.nn.Module]) -> Iterator[Any]:
    """Replace these names in the files of a function, of the classes of modules, and of their imports."""
    changed: list[tuple[Any, str, Any, Any]] = []
    files = _files(function, modules)
    for names in files:
        called = (name for name in _STAND_INS if name not in names and name in _names_called_only(names))
        changed += [(names, name, None, _STAND_INS[name]) for name in called]
    for names in (vars(math), vars(random), vars(np.random), vars(torch), *files):
        changed += [
            (names, name, value, _FUNCTIONS[value])
            for name, value in list(names.items())
            if isinstance(value, _KINDS) and value in _FUNCTIONS
        ]
    for names, name, _, stand_in in changed:
        names[name] = stand_in
    try:
        yield
    finally:
        for names, name, value, _ in changed:
            if value is None:
                names.pop(name, None)
            else:
                names[name] = value


def _files(function: Callable[..., Any], modules: Sequence[torch.nn.Module]) -> Any:
    """The namespaces of the program's files that a function and modules lead to."""
    found, waiting = {}, [function, *map(type, modules)]
    while waiting:
        names = _names_of(waiting.pop())
        path = names.get("__file__") if names is not None else None
        if path is None or id(names) in found or str(path).startswith(reachable_modules.PATHS_OF_LIBRARIES):
            continue
        if not str(names.get("__name__")).startswith(reachable_modules.PACKAGE):
            found[id(names)] = names
            waiting += names.values()
    return list(found.values())


def _names_of(value: Any) -> Any:
    """The namespace of the file that defines a function or class, or of a module."""
    if isinstance(value, types.ModuleType):
        return vars(value)
    if isinstance(value, type):
        methods = (inspect.unwrap(one) for one in vars(value).values() if callable(one))
        value = next((one for one in methods if isinstance(one, types.FunctionType)), None)
    elif "__wrapped__" in getattr(value, "__dict__", ()):
        value = inspect.unwrap(value)
    if isinstance(value, (types.MethodType, staticmethod, classmethod)):
        value = value.__func__  # not of any object: a mapping may take the name for a key
    return value.__globals__ if isinstance(value, types.FunctionType) else None


def _names_called_only(names: Any) -> Any:
    """The names of number classes that a file only calls, or uses in `isinstance`."""
    path = names["__file__"]
    if path not in _called_only:
        try:
            with open(path, encoding="utf-8") as file:
                tree = ast.parse(file.read())
        except (OSError, SyntaxError, ValueError):
            tree = None
        _called_only[path] = frozenset() if tree is None else _STAND_INS.keys() - set(_used_otherwise(tree))
    return _called_only[path]


def _used_otherwise(node: Any) -> Iterator[Any]:
    """The names that are used other than in calls, comparisons, `isinstance` and annotations."""
    for field, value in ast.iter_fields(node):
        match node:
            case ast.Call() if field == "func" and isinstance(value, ast.Name):
                continue
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass")) if field == "args":
                value = value[:1]
            case ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.In() | ast.NotIn()]) if field == "comparators":
                value = [one for one in value if not _are_names(one)]
            case ast.keyword(arg="type"):
                continue  # of a command-line argument
            case _ if field in ("annotation", "returns"):
                continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.Name):
                yield child.id
            elif isinstance(child, ast.AST):
                yield from _used_otherwise(child)


def _are_names(node: Any) -> bool:
    items = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
    return all(isinstance(item, ast.Name) for item in items)
