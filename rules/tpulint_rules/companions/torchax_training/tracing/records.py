"""Objects of the program's own that hold tensors, as arguments and as results of functions.

What a function makes and gives back, such as an `Output` with a loss, is taken apart, and put together again
around the tensors that come out.
As for arguments, a function is compiled for the objects that it is called with.
One that holds tensors and plain values alone, and is another one at each call, is taken apart instead: its
tensors are inputs, and the function gets an object like it.
Where the function writes to its attributes, it is given the object itself, and so is one that is never compiled
as a whole, which may be run but once.
"""

from __future__ import annotations

import functools
from collections import OrderedDict

import torch
from torch.utils import _pytree as pytree

from .. import arrays

_PLAIN = (bool, int, float, str, bytes, type(None), torch.dtype, torch.device, torch.Size)


class Record:
    """What an object holds, by the names of its attributes, and its items where it is a dictionary."""

    def __init__(self, kind, names, keys, values):
        self.kind, self.names, self.keys, self.values = kind, names, keys, values

    @classmethod
    def of(cls, one):
        """What an object holds."""
        held, items = attributes_of(one), one if isinstance(one, dict) else {}
        return cls(type(one), tuple(held), tuple(items), [*held.values(), *items.values()])

    def made(self):
        """An object that holds the same."""
        one = self.kind.__new__(self.kind)
        for name, value in zip(self.names, self.values):
            object.__setattr__(one, name, value)
        for key, value in zip(self.keys, self.values[len(self.names) :]):
            (OrderedDict if isinstance(one, OrderedDict) else dict).__setitem__(one, key, value)
        return one

    def is_kept(self, one):
        """Whether an object that was made still holds the same."""
        now = Record.of(one)
        are_same = len(now.values) == len(self.values) and all(map(_is, now.values, self.values))
        return are_same and (now.names, now.keys) == (self.names, self.keys)


def attributes_of(one):
    """The attributes of an object, those in slots among them, by their names."""
    slots = [name for kind in type(one).__mro__ for name in _as_tuple(vars(kind).get("__slots__", ()))]
    held = {name: getattr(one, name) for name in slots if name != "__dict__" and hasattr(one, name)}
    return {**held, **getattr(one, "__dict__", {})}


def _as_tuple(names):
    return (names,) if isinstance(names, str) else tuple(names)


def apart(value, known, around=frozenset()):
    """A value in which records stand for objects that hold what is traced; not for those with a known `id`."""
    if isinstance(value, torch.Tensor) or id(value) in known or id(value) in around:
        return value
    within = functools.partial(apart, known=known, around=around | {id(value)})
    if type(value) in pytree.SUPPORTED_NODES or pytree.is_namedtuple_instance(value):
        return pytree.tree_map(within, value, is_leaf=lambda one: one is not value)
    if not _may_be_made(value):
        return value
    record = Record.of(value)
    record.values = [within(one) for one in record.values]
    return record if any(map(arrays.is_traced, pytree.tree_leaves(record.values))) else value


def together(value):
    """A result with the objects that records stand for."""
    return pytree.tree_map(_together, value, is_leaf=_is_record)


def _together(value):
    if not _is_record(value):
        return value
    return Record(value.kind, value.names, value.keys, list(map(together, value.values))).made()


def _is_record(value):
    return isinstance(value, Record)


def _may_be_made(value):
    kind = type(value)
    if not _is_of_program(kind) and not kind.__module__.startswith("torch.distributions."):
        return False
    return hasattr(value, "__dict__") or "__slots__" in vars(kind) or isinstance(value, dict)


class Written(Exception):
    """An object that was taken apart is needed itself."""


def check(taken, made, results, written):
    """Raise `Written` where a function wrote to what stands for an object, gives it back, or keeps it."""
    pairs = [*zip(taken[0], made[0]), *((value, made[1][name]) for name, value in taken[1].items())]
    pairs = [(record, one) for record, one in pairs if isinstance(record, Record)]
    if not pairs:
        return
    leaves = {id(leaf) for leaf in (*results, *(leaf for _, leaves, _ in written for leaf in leaves))}
    if any(id(one) in leaves or not record.is_kept(one) for record, one in pairs):
        raise Written


def _is(value, other):
    return value is other


pytree.register_pytree_node(
    Record,
    lambda record: (list(record.values), (record.kind, record.names, record.keys)),
    lambda values, context: Record(*context, values),
)


class Records:
    """Which arguments of one function are others at each call."""

    def __init__(self, *, is_on):
        self.is_on, self.seen = is_on, {}

    @property
    def are_taken(self):
        """Whether any was taken apart."""
        return self.is_on and 0 in self.seen.values()

    def taken(self, args, kwargs):
        """The arguments, those among them taken apart."""
        if not self.is_on:
            return args, kwargs
        args = [self._taken(i, value) for i, value in enumerate(args)]
        return args, {name: self._taken(name, value) for name, value in kwargs.items()}

    def _taken(self, place, value):
        kind = type(value)
        if not _is_of_program(kind) or not (hasattr(value, "__dict__") or isinstance(value, dict)):
            return value
        first = self.seen.setdefault((place, kind), id(value))
        record = Record.of(value)
        if first == id(value) or not all(map(_is_data, record.values)):
            return value
        self.seen[place, kind] = 0  # no object has this identity: it is another one each time
        return record


def _is_of_program(kind):
    root = kind.__module__.partition(".")[0]
    is_other = issubclass(kind, (type, torch.nn.Module, torch.Tensor, torch.optim.Optimizer, list, tuple))
    if kind in pytree.SUPPORTED_NODES:
        return False
    return root not in ("torch", "torchax", "jax", "numpy", "builtins") and not is_other


def _is_data(value):
    """Whether a value is a tensor, a plain value, or some of these."""
    if isinstance(value, dict):
        return all(map(_is_data, value.values()))
    if type(value) in (list, tuple):
        return all(map(_is_data, value))
    return isinstance(value, (torch.Tensor, *_PLAIN))
