"""The free variables of what a traced function runs: globals of the program's files, and what closures hold.

Tracing reads them once, as it reads attributes, and so they are watched like these: a weight of the loss that is
a global, and grows from epoch to epoch, is no constant.
"""

from __future__ import annotations

import argparse
import functools
import types

import torch

from . import attributes, reach

_NAMESPACES = (argparse.Namespace, types.SimpleNamespace)
#: Called by Python itself.
_METHODS = ("forward", "__call__", "__getattr__", "__getitem__", "__iter__", "__len__")


class Variable(attributes.Attribute):
    """A global, the variable of a closure, or an attribute of a class."""

    is_container = False

    def __init__(self, held, owner, name, kind):
        self.held, self.name, self.kind = held, name, kind
        self.key, self.apart = (id(owner), name), frozenset()

    def __str__(self):
        return f"`{self.name}` of {self.kind}"


class _Cell:
    """The variable of a closure, as a dictionary of one."""

    def __init__(self, cell):
        self.cell = cell

    def get(self, _name, default=None):
        try:
            return self.cell.cell_contents
        except ValueError:  # it has none yet
            return default

    def __setitem__(self, _name, value):
        self.cell.cell_contents = value


class _Class:
    """The attributes of a class, as a dictionary."""

    def __init__(self, cls):
        self.cls = cls

    def get(self, name, default=None):
        return getattr(self.cls, name, default)

    def __setitem__(self, name, value):
        setattr(self.cls, name, value)


def of(function, modules, objects):
    """The free variables of what a function, and the methods of modules and objects, run, and what objects these are."""
    reader = _Reader([*modules, *objects])
    reader.visit(function)
    return list(reader.variables.values()), list(reader.objects.values())


class _Reader:
    """Follows functions to those that they name, and methods that they may call by their names."""

    def __init__(self, objects=()):
        self.variables, self.objects, self.seen = {}, {}, set()
        self.classes, self.called = {}, set()
        for one in objects:
            self._add(type(one))
            if isinstance(one, torch.nn.Module):
                for value in vars(one).values():
                    if isinstance(value, types.FunctionType):
                        self.visit(value)

    def visit(self, value):
        """Follow a value that something names."""
        if id(value) in self.seen:
            return
        if isinstance(value, types.FunctionType):
            self.seen.add(id(value))
            if not reach.is_of_library(value.__globals__):
                self._follow(value)
        elif isinstance(value, types.MethodType):
            self.visit(value.__func__)
        elif isinstance(value, functools.partial):
            self.visit(value.func)
        elif isinstance(value, (staticmethod, classmethod)) or "__wrapped__" in getattr(
            value, "__dict__", ()
        ):
            self.visit(value.__wrapped__)
        elif isinstance(value, property):
            self.visit(value.fget)
        elif isinstance(value, type):
            self.called.add("__init__")
            self.called |= {"backward"} if issubclass(value, torch.autograd.Function) else set()
            self._add(value)
        elif attributes.is_own(value) and not isinstance(value, torch.utils.data.Dataset):
            self.seen.add(id(value))
            is_of_program = not reach.is_of_library(reach.globals_of(type(value)))
            if is_of_program or type(value) in _NAMESPACES:
                self.objects[id(value)] = value
                self._add(type(value))

    def _add(self, cls):
        """Note that methods of a class may be called."""
        for base in cls.__mro__:
            if base not in self.classes and not reach.is_of_library(reach.globals_of(base)):
                self.classes[base] = None
                for name in {*self.called, *_METHODS} & vars(base).keys():
                    self.visit(vars(base)[name])

    def _call(self, names):
        """Note that functions name methods, whatever they are methods of."""
        new = set(names) - self.called
        self.called |= new
        for base in list(self.classes):
            for name in new & vars(base).keys():
                self.visit(vars(base)[name])

    def _follow(self, function):
        names = function.__globals__
        for name, part in reach.loads(function.__code__):
            if name not in names:
                continue
            value = names[name]
            self._read(names, names, name, "the program's file")
            if part is None:
                self.visit(value)
            elif isinstance(value, types.ModuleType) and not reach.is_of_library(vars(value)):
                self._read(vars(value), vars(value), part, f"`{name}`")
                self.visit(vars(value).get(part))
            elif isinstance(value, type) and not reach.is_of_library(reach.globals_of(value)):
                self._read(_Class(value), value, part, f"`{name}`")
                self.visit(value)
            else:
                self.visit(value)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            held = _Cell(cell)
            self._read(held, cell, name, f"`{function.__name__}`")
            self.visit(held.get(name))
        self._call(reach.names(function.__code__))

    def _read(self, held, owner, name, kind):
        if attributes.is_watched(held.get(name)):
            self.variables.setdefault((id(owner), name), Variable(held, owner, name, kind))
