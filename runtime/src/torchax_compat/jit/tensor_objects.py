"""Objects of the program that hold tensors, as arguments and results of functions.

A new object that a function returns, such as an `Output` with a loss, is taken apart, and built again around
the tensors of each call.
As arguments, a function is compiled for the very objects that it is called with.
An object that holds only tensors and plain values, and that is a new one at each call, is taken apart
instead: its tensors are inputs, and the function gets an object like it.
If the function writes to its attributes, it gets the object itself.
So does a function that always runs call by call, which may run only once.
"""

from __future__ import annotations

import collections
import copy
import enum
import logging
import types
from collections import OrderedDict
from typing import Any

import torch

from ..adapters.torch_internals import pytree
from ..tensor import arrays
from . import slots

_OTHERS = (
    *(type, torch.nn.Module, torch.Tensor, torch.optim.Optimizer, list, tuple, set, frozenset, str, bytes),
    *(int, float, collections.deque, collections.defaultdict, logging.Logger, types.ModuleType),
)
_PLAIN = (bool, int, float, str, bytes, type(None), torch.dtype, torch.device, torch.Size)


#: The flag of classes that are written in Python.
_WRITTEN = 1 << 9


class Record:
    """The attributes of an object, and its items if it is a dictionary.

    `number` distinguishes it from other records of one result.
    """

    def __init__(self, kind: Any, names: Any, keys: Any, values: Any, number: Any = None) -> None:
        self.kind, self.names, self.keys, self.values, self.number = kind, names, keys, values, number

    @classmethod
    def of(cls, one: Any, number: Any = None) -> Any:
        """The record of an object."""
        held, items = attributes_of(one), one if isinstance(one, dict) else {}
        return cls(type(one), tuple(held), tuple(items), [*held.values(), *items.values()], number)

    def made(self) -> Any:
        """A new object with the same contents."""
        one = self.empty()
        self.fill(one, self.values)
        return one

    def empty(self) -> Any:
        """An object of the same class, without a call of its constructor."""
        # Python requires `__new__` of the nearest class that is not written in Python.
        built_in = next(kind for kind in self.kind.__mro__ if not kind.__flags__ & _WRITTEN)
        return built_in.__new__(self.kind)

    def fill(self, one: Any, values: Any) -> None:
        """Set the attributes and items of an object."""
        plain = getattr(one, "__dict__", {})
        in_slots = slots.names(self.kind)
        for name, value in zip(self.names, values, strict=False):
            if name in in_slots:
                object.__setattr__(one, name, value)
            else:
                plain[name] = value
        for key, value in zip(self.keys, values[len(self.names) :], strict=False):
            (OrderedDict if isinstance(one, OrderedDict) else dict).__setitem__(one, key, value)

    def is_kept(self, one: Any) -> bool:
        """Whether a new object still has the same contents."""
        now = Record.of(one)
        are_same = len(now.values) == len(self.values) and all(map(_is, now.values, self.values))
        return are_same and (now.names, now.keys) == (self.names, self.keys)


class _Again:
    """An object that occurs a second time in a result, by the number of its record."""

    def __init__(self, number: Any) -> None:
        self.number = number


def attributes_of(one: Any) -> Any:
    """The attributes of an object by name, including those in slots."""
    class_: Any = type(one)
    held = {name: getattr(one, name) for name in slots.names(class_) if hasattr(one, name)}
    return {**held, **getattr(one, "__dict__", {})}


def with_records(value: Any, known: Any) -> Any:
    """A value with records for objects that hold traced tensors, except for objects with a known `id`.

    Objects and sets in these objects are created again at each call, too.
    """
    return _apart(value, known, {}, is_within=False)


def _apart(value: Any, known: Any, numbers: Any, *, is_within: bool) -> Any:
    if isinstance(value, torch.Tensor) or id(value) in known:
        return value
    if _is_container(value):
        return pytree.tree_map(
            lambda one: _apart(one, known, numbers, is_within=is_within),
            value,
            is_leaf=lambda one: one is not value,
        )
    if not _may_be_made(value) or not (is_within or _holds_traced(value, known)):
        return value
    if id(value) in numbers:
        return _Again(numbers[id(value)][0])
    numbers[id(value)] = len(numbers), value  # which is kept alive, so that its `id` stays unique
    record = Record.of(value, numbers[id(value)][0])
    record.values = [_apart(one, known, numbers, is_within=True) for one in record.values]
    return record


def _holds_traced(value: Any, known: Any) -> bool:
    """Whether an object, or one that it holds, has a traced tensor."""
    waiting, seen = [value], set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen or id(one) in known:
            continue
        seen.add(id(one))
        if arrays.is_traced(one):
            return True
        if _is_container(one):
            waiting += dict.values(one) if isinstance(one, dict) else one
        elif _may_be_made(one):
            waiting += Record.of(one).values
    return False


def _is_container(value: Any) -> bool:
    return type(value) in pytree.SUPPORTED_NODES or pytree.is_namedtuple_instance(value)


def with_objects(value: Any) -> Any:
    """A value with objects in place of records."""
    records: list[Record] = []
    made = {}
    pytree.tree_map(lambda one: _list(one, records), value, is_leaf=_is_record)
    for record in records:
        made[record.number] = record.empty()

    def put(one: Any) -> Any:
        if isinstance(one, (Record, _Again)):
            return made[one.number]
        return copy.copy(one) if type(one) in (set, collections.deque) else one

    def filled(values: Any) -> Any:
        return pytree.tree_map(put, values, is_leaf=_is_record)

    for record in records:
        record.fill(made[record.number], filled(record.values))
    return filled(value)


def _list(value: Any, records: Any) -> None:
    if isinstance(value, Record):
        records.append(value)
        pytree.tree_map(lambda one: _list(one, records), value.values, is_leaf=_is_record)


def _is_record(value: Any) -> bool:
    return isinstance(value, Record)


def _may_be_made(value: Any) -> bool:
    kind = type(value)
    if isinstance(value, enum.Enum) or not (
        _is_of_program(kind) or kind.__module__.startswith("torch.distributions.")
    ):
        return False
    return hasattr(value, "__dict__") or "__slots__" in vars(kind) or isinstance(value, dict)


class ObjectNeededError(Exception):
    """An object that was taken apart is needed itself."""


def check(taken: Any, made: Any, results: Any, written: Any) -> None:
    """Raise `ObjectNeededError` if a function writes to the replacement of an object, returns or keeps it."""
    pairs = [
        *zip(taken[0], made[0], strict=False),
        *((value, made[1][name]) for name, value in taken[1].items()),
    ]
    pairs = [(record, one) for record, one in pairs if isinstance(record, Record)]
    if not pairs:
        return
    leaves = {id(leaf) for leaf in (*results, *(leaf for _, leaves, _ in written for leaf in leaves))}
    if any(id(one) in leaves or not record.is_kept(one) for record, one in pairs):
        raise ObjectNeededError


def _is(value: Any, other: Any) -> bool:
    return value is other


pytree.register_pytree_node(
    Record,
    lambda record: (list(record.values), (record.kind, record.names, record.keys, record.number)),
    lambda values, context: Record(context[0], context[1], context[2], values, context[3]),
    serialized_type_name=f"{Record.__module__}.{Record.__qualname__}",
)


class Records:
    """The arguments of a function that are new objects at each call."""

    def __init__(self, *, is_on: bool) -> None:
        self.is_on = is_on
        self.seen: dict[Any, Any] = {}

    @property
    def are_taken(self) -> bool:
        """Whether an argument was taken apart."""
        return self.is_on and 0 in self.seen.values()

    def taken(self, args: Any, kwargs: dict[str, Any]) -> Any:
        """The arguments, with records for those that are taken apart."""
        if not self.is_on:
            return args, kwargs
        args = [self._taken(i, value) for i, value in enumerate(args)]
        return args, {name: self._taken(name, value) for name, value in kwargs.items()}

    def _taken(self, place: Any, value: Any) -> Any:
        kind = type(value)
        if not _is_of_program(kind) or not (hasattr(value, "__dict__") or isinstance(value, dict)):
            return value
        if self.seen.setdefault((place, kind), id(value)) == id(value):
            return value
        record = Record.of(value)
        if not all(map(_is_data, record.values)):
            return value
        self.seen[place, kind] = 0  # no object has this `id`: it is a new one each time
        return record


def _is_of_program(kind: Any) -> bool:
    root = kind.__module__.partition(".")[0]
    is_other = issubclass(kind, _OTHERS) or kind in pytree.SUPPORTED_NODES
    return root not in ("torch", "torchax", "jax", "numpy", "builtins") and not is_other


def _is_data(value: Any) -> bool:
    """Whether a value is a tensor, a plain value, or a container of these."""
    if isinstance(value, dict):
        return all(map(_is_data, dict.values(value)))
    if type(value) in (list, tuple):
        return all(map(_is_data, value))
    return isinstance(value, (torch.Tensor, *_PLAIN))
