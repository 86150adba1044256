"""Arguments that are objects of the program's own, such as a batch that is made anew for each step.

A function is compiled for the objects that it is called with.
One that holds tensors and plain values alone, and is another one at each call, is taken apart instead: its
tensors are inputs, and the function gets an object like it.
Where the function writes to its attributes, it is given the object itself, and so is one that is never compiled
as a whole, which may be run but once.
"""

from __future__ import annotations

import torch
from torch.utils import _pytree as pytree

_PLAIN = (bool, int, float, str, bytes, type(None), torch.dtype, torch.device, torch.Size)


class Record:
    """What an object holds, by the names of its attributes."""

    def __init__(self, kind, names, values):
        self.kind, self.names, self.values = kind, names, values

    def made(self):
        """An object that holds the same."""
        one = object.__new__(self.kind)
        vars(one).update(zip(self.names, self.values))
        return one

    def is_kept(self, one):
        """Whether an object that was made still holds the same."""
        held = vars(one)
        return tuple(held) == self.names and all(map(_is, held.values(), self.values))


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
    lambda record: (list(record.values), (record.kind, record.names)),
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
        if not _is_of_program(kind) or not hasattr(value, "__dict__"):
            return value
        held = vars(value)
        first = self.seen.setdefault((place, kind), id(value))
        if first == id(value) or not all(map(_is_data, held.values())):
            return value
        self.seen[place, kind] = 0  # no object has this identity: it is another one each time
        return Record(kind, tuple(held), list(held.values()))


def _is_of_program(kind):
    root = kind.__module__.partition(".")[0]
    is_other = issubclass(
        kind, (type, torch.nn.Module, torch.Tensor, torch.optim.Optimizer, dict, list, tuple)
    )
    return root not in ("torch", "torchax", "jax", "numpy", "builtins") and not is_other


def _is_data(value):
    """Whether a value is a tensor, a plain value, or some of these."""
    if isinstance(value, dict):
        return all(map(_is_data, value.values()))
    if type(value) in (list, tuple):
        return all(map(_is_data, value))
    return isinstance(value, (torch.Tensor, *_PLAIN))
