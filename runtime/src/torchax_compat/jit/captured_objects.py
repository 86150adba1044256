"""Globals, closures and objects that a function uses without getting them as arguments.

`loss * args.beta` depends on an object that is not passed to the function, and `seen.append(loss.detach())`
adds to a list of its file.
Both are treated like attributes of its modules.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any

import numpy as np
import torch
from torchax.tensor import Tensor
from torchax.view import View

from . import reachable_modules, slots

#: Longer lists and dictionaries are data, and are not watched.
_MOST_ITEMS = 1000
#: How deep the attributes of objects are followed.
_DEPTH = 5
_NAMESPACES = (argparse.Namespace, types.SimpleNamespace)
_OTHERS = (
    torch.nn.Module,
    torch.Tensor,
    torch.optim.Optimizer,
    torch.optim.lr_scheduler.LRScheduler,
    torch.utils.data.Dataset,
    torch.utils.data.DataLoader,
)
_PLAIN = (bool, int, float, str, type(None))


class Names(MutableMapping[Any, Any]):
    """Some names of a file, a class, a dictionary, or a closure; `key` identifies it."""

    def __init__(self, held: Any, kind: Any, key: Any) -> None:
        self.held, self.kind, self.key = held, kind, key
        self.used: dict[Any, Any] = {}

    def __getitem__(self, name: Any) -> Any:
        return self.held[name]

    def __setitem__(self, name: Any, value: Any) -> None:
        if isinstance(self.held, types.MappingProxyType):
            setattr(self.kind, name, value)
        else:
            self.held[name] = value

    def __delitem__(self, name: Any) -> None:
        if isinstance(self.held, types.MappingProxyType):
            delattr(self.kind, name)
        else:
            del self.held[name]

    def __iter__(self) -> Iterator[Any]:
        return (name for name in self.used if name in self.held)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Cells(dict[str, Any]):
    """The variables of enclosing functions, which are in cells."""

    def __init__(self, function: Any) -> None:
        super().__init__(zip(function.__code__.co_freevars, function.__closure__, strict=True))

    def __contains__(self, name: Any) -> bool:
        try:
            self[name]
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[Any]:
        return (name for name in super().__iter__() if name in self)

    def __getitem__(self, name: Any) -> Any:
        try:
            return super().__getitem__(name).cell_contents
        except ValueError as error:
            raise KeyError(name) from error

    def __setitem__(self, name: Any, value: Any) -> None:
        super().__getitem__(name).cell_contents = value

    def __delitem__(self, name: Any) -> None:
        del super().__getitem__(name).cell_contents


class _Slots:
    """The attributes of an object whose class has `__slots__`."""

    def __init__(self, one: Any) -> None:
        self.one = one

    def __contains__(self, name: Any) -> bool:
        return hasattr(self.one, name)

    def __getitem__(self, name: Any) -> Any:
        try:
            return getattr(self.one, name)
        except AttributeError as error:
            raise KeyError(name) from error

    def __setitem__(self, name: Any, value: Any) -> None:
        object.__setattr__(self.one, name, value)

    def __delitem__(self, name: Any) -> None:
        object.__delattr__(self.one, name)


class _Defaults:
    """The values of the arguments of a function that a call may leave out."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def now(self) -> dict[str, Any]:
        """The values by name."""
        code, given = self._function.__code__, self._function.__defaults__ or ()
        names = code.co_varnames[code.co_argcount - len(given) : code.co_argcount]
        return {**dict(zip(names, given, strict=False)), **(self._function.__kwdefaults__ or {})}

    def __contains__(self, name: Any) -> bool:
        return name in self.now()

    def __getitem__(self, name: Any) -> Any:
        return self.now()[name]


class Held:
    """The values of names, as attributes of an object."""

    def __init__(self, names: Any) -> None:
        self.names = names

    @property
    def __dict__(self) -> Any:  # type: ignore[override]  # an object's own is assignable
        return self.names


class Surroundings:
    """The values that functions, and the classes of objects, use.

    `held` are names of plain values and containers, `objects` are other objects.
    """

    def __init__(self, values: Any, apart: Any) -> None:
        self.held: dict[Any, Any] = {}
        self.objects: dict[int, Any] = {}
        self._seen = set(apart)
        self.apart = apart
        for value in values:
            self._visit(value, _DEPTH)

    def _visit(self, value: Any, depth: int) -> None:
        if type(value) in _WITHOUT_NAMES or id(value) in self._seen:
            return
        self._seen.add(id(value))
        match value:
            case types.FunctionType():
                if _is_of_program(value.__globals__.get("__name__")):
                    self._visit_function(value, depth)
            case functools.partial():
                self._note(value, value.keywords, "dict", _changing(value.keywords))
                self._visit(value.func, depth)
            case types.MethodType():
                self._visit(value.__func__, depth)
                self._visit(value.__self__, depth)
            case type():
                if _is_of_program(value.__module__):
                    self._visit_class(value, depth)
            case torch.nn.Module():
                if _is_of_program(type(value).__module__):
                    self._visit(type(value), depth)
                    held = vars(value)
                    for name in held.keys() - reachable_modules.INTERNAL:
                        self._visit(held[name], depth - 1)
            case list() | tuple() | dict():
                if depth and len(value) <= _MOST_ITEMS:
                    items = dict.values(value) if isinstance(value, dict) else value
                    if isinstance(value, dict):
                        names = [k for k, v in dict.items(value) if _is_container(v)]
                        self._note(value, value, "dict", names)
                    for item in items:
                        self._visit(item, depth - 1)
            case _ if "__wrapped__" in getattr(value, "__dict__", ()):
                self._visit(inspect.unwrap(value), depth)
            case _ if depth and is_own(value):
                self.objects[id(value)] = value
                self._visit(type(value), depth)
                for item in list(vars(value).values()):
                    self._visit(item, depth - 1)
            case _ if depth and _has_slots(value.__class__):
                held, names = _Slots(value), list(slots.names(value.__class__))
                self._note(value, held, type(value).__name__, names)
                self._visit(type(value), depth)
                for item in [held[name] for name in names if name in held]:
                    self._visit(item, depth - 1)

    def _visit_function(self, function: Callable[..., Any], depth: int) -> None:
        known = function.__globals__
        names = [name for name in reachable_modules.global_names(function.__code__) if name in known]
        self._note(known, known, known.get("__name__"), filter(lambda name: _may_change(known[name]), names))
        for name in names:
            value = known[name]
            if isinstance(value, types.ModuleType):
                if _is_of_program(value.__name__):
                    held = vars(value)
                    used = [one for one in reachable_modules.names(function.__code__) if one in held]
                    self._note(held, held, value.__name__, filter(lambda one: _may_change(held[one]), used))
                    for one in used:
                        self._visit(held[one], depth)
            else:
                self._visit(value, depth)
        defaults = _Defaults(function)
        self._note(function, defaults, "dict", _changing(defaults.now()))
        if function.__closure__:
            cells = _Cells(function)
            self._note(
                function.__closure__,
                cells,
                function.__name__,
                filter(lambda name: _may_change(cells[name]), cells),
            )
            for name in cells:
                self._visit(cells[name], depth)

    def _visit_class(self, kind: Any, depth: int) -> None:
        for one in kind.__mro__:
            if _is_of_program(one.__module__):
                held = vars(one)
                names = [k for k, v in held.items() if not k.startswith("__") and _may_change(v)]
                self._note(one, held, one, names)
                for value in list(held.values()):
                    if isinstance(value, property):
                        value = value.fget
                    elif isinstance(value, (staticmethod, classmethod)):
                        value = value.__func__
                    if isinstance(value, types.FunctionType) or "__wrapped__" in getattr(
                        value, "__dict__", ()
                    ):
                        self._visit(value, depth)

    def _note(self, what: Any, held: Any, kind: Any, names: Any) -> None:
        names = {name: None for name in names if name not in held or id(held[name]) not in self.apart}
        if names:
            if id(what) not in self.held:
                self.held[id(what)] = Held(Names(held, kind, id(what)))
            vars(self.held[id(what)]).used.update(names)


_WITHOUT_NAMES = {*_PLAIN, torch.dtype, torch.device, torch.Size, types.BuiltinFunctionType, types.ModuleType}
_WITHOUT_NAMES |= {torch.Tensor, torch.nn.Parameter, Tensor, View, np.ndarray}


class Executed:
    """Context that notes which functions run: values that only other functions use do not matter."""

    def __init__(self) -> None:
        self.codes: set[types.CodeType] = set()

    def __enter__(self) -> Any:
        self.is_noted = sys.gettrace() is None
        if self.is_noted:
            sys.settrace(self._note)
        return self

    def __exit__(self, *_: Any) -> None:
        if self.is_noted:
            sys.settrace(None)

    def _note(self, frame: Any, _event: Any, _argument: Any) -> None:
        self.codes.add(frame.f_code)

    def used(self) -> Any:
        """The names that these functions use; None if they are unknown."""
        if not self.is_noted:
            return None
        own = [
            code
            for code in self.codes
            if not code.co_filename.startswith(reachable_modules.PATHS_OF_LIBRARIES)
        ]
        return {
            name
            for code in own
            for name in (*reachable_modules.names(code), *code.co_freevars, *code.co_cellvars)
        }


def captured(
    function: Callable[..., Any] | None, modules: Sequence[torch.nn.Module], leaves: Any, apart: Any = ()
) -> Any:
    """The names that a function, modules and arguments lead to, and objects of the program.

    `apart` are the `id`s of containers that are handled in another way.
    """
    found = Surroundings([function, *modules, *leaves], apart)
    return [*found.held.values(), *found.objects.values()]


def is_own(one: Any) -> bool:
    """Whether an object is one of the program, and neither computes nor provides data."""
    if not hasattr(one, "__dict__") or isinstance(one, _OTHERS):
        return False
    return isinstance(one, _NAMESPACES) or _is_of_program(type(one).__module__)


def _has_slots(cls: Any) -> bool:
    """Whether a class is one of the program, and its objects have `__slots__` instead of a `__dict__`."""
    return cls.__dictoffset__ == 0 and _is_of_program(cls.__module__) and bool(slots.names(cls))


def _changing(values: dict[Any, Any]) -> list[Any]:
    """The names of values for which a function is traced."""
    return [name for name, value in values.items() if _may_change(value)]


def _may_change(value: Any) -> bool:
    """Whether a function is traced for a value."""
    return isinstance(value, (*_PLAIN, torch.Tensor, np.ndarray)) or _is_container(value)


def _is_container(value: Any) -> bool:
    return isinstance(value, (list, dict, set, deque)) and len(value) <= _MOST_ITEMS


@functools.cache
def _is_of_program(name: Any) -> bool:
    """Whether the file with this module name is one of the program."""
    path = getattr(sys.modules.get(name), "__file__", None)
    is_there = path is not None and not str(path).startswith(reachable_modules.PATHS_OF_LIBRARIES)
    return name == "__main__" or (is_there and not str(name).startswith(reachable_modules.PACKAGE))
