"""The arrays of many tensors, read and replaced at once: one by one, that takes longer than a small step.

A group may keep the arrays that a step has computed: the tensors then have no `_elem` until something reads
or writes one of them, and the next step takes the list as it is.
"""

from __future__ import annotations

import collections
import itertools
import operator
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torchax.tensor import Tensor

from . import arrays

_array = operator.itemgetter("_elem")
#: The references to an object that only a list holds, when they are counted.
_ALONE = max(map(sys.getrefcount, [object()]))
#: The attribute of a tensor for the group that keeps, or kept, its array.
_KEEPER = arrays.KEEPER

Finish = Callable[[list[Any]], Sequence[Any]]


class ArrayGroup:
    """The arrays of some tensors on torchax; the list of tensors is kept, not copied."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.tensors = tensors
        self._are_plain = all(type(one) is Tensor for one in tensors)
        self._held: list[dict[str, Any]] = [one.__dict__ for one in tensors]
        self._kept: list[Any] | None = None
        self._finish: Finish | None = None
        #: Whether the tensors name this group as the one that keeps their arrays.
        self.is_keeper = False
        self._lender: _Lender | None = None

    def __del__(self) -> None:
        self.release()

    def get(self) -> list[Any]:
        """The arrays, in a new list."""
        if self._kept is not None:
            if self._finish is None:
                return self._kept.copy()
            self.release()
        if self._lender is not None and self._lender.group.keeps():
            return self._lender.get()
        if self._are_plain and not self.have("_taken"):
            try:
                return list(map(_array, self._held))
            except KeyError:  # one that another group keeps, or that is computed later
                self._find_lender()
                if self._lender is not None:
                    return self._lender.get()
        return list(map(arrays.array_of, self.tensors))

    def keep(self, values: list[Any], finish: Finish | None = None) -> None:
        """Replace the arrays, which the tensors get when something reads one of them.

        Args:
            values: the arrays; the list is kept, not copied.
            finish: computes the arrays from `values` when they are read.
        """
        if not self.is_keeper and not self._becomes_keeper():
            _call_each(arrays.put, self.tensors, values if finish is None else finish(values))
            return
        self.forget()
        self._kept, self._finish = values, finish

    def release(self) -> None:
        """Give the arrays that are kept to the tensors."""
        if self._kept is None:
            return
        values = self._kept if self._finish is None else self._finish(self._kept)
        self._kept = None
        _call_each(dict.__setitem__, self._held, itertools.repeat("_elem"), values)

    def forget(self) -> None:
        """Let the arrays be computed later."""
        if self._kept is None:
            _call_each(dict.pop, self._held, itertools.repeat("_elem"), itertools.repeat(None))
        self._kept = None

    def have(self, name: str) -> bool:
        """Whether one of the tensors has an attribute."""
        return any(map(operator.contains, self._held, itertools.repeat(name)))

    def _becomes_keeper(self) -> bool:
        if not self._are_plain or self.have("_taken"):
            return False
        reference = weakref.ref(self)
        for held in self._held:
            other = _keeper(held)
            if other is not None:
                other.release()
                other.is_keeper = False
            held[_KEEPER] = reference
        self.is_keeper = True
        return True

    def keeps(self) -> bool:
        """Whether the arrays are kept."""
        return self._kept is not None

    def _find_lender(self) -> None:
        """Look for another group that keeps some of the arrays."""
        keepers = map(_keeper, self._held)
        group = next((one for one in keepers if one is not None and one.keeps()), None)
        self._lender = None if group is None else _Lender(group, self.tensors)


class _Lender:
    """A group that keeps arrays of some tensors of another group."""

    def __init__(self, group: ArrayGroup, tensors: Sequence[torch.Tensor]) -> None:
        places = {id(one): i for i, one in enumerate(group.tensors)}
        others = [one for one in tensors if id(one) not in places]
        places |= {id(one): len(places) + i for i, one in enumerate(others)}
        self.group, self._others = group, ArrayGroup(others)
        self._places = [places[id(one)] for one in tensors]

    def get(self) -> list[Any]:
        """The arrays of the tensors."""
        values = self.group.get() + self._others.get()
        return list(map(values.__getitem__, self._places))


def _keeper(held: dict[str, Any]) -> ArrayGroup | None:
    """The group that keeps, or kept, the array of a tensor with these attributes."""
    reference = held.get(_KEEPER)
    return None if reference is None else reference()


def is_kept(tensor: torch.Tensor) -> bool:
    """Whether a group keeps the array of a tensor."""
    keeper = _keeper(vars(tensor))
    return keeper is not None and keeper.keeps()


def release(tensor: torch.Tensor) -> None:
    """Give a tensor its array if a group keeps it."""
    keeper = _keeper(vars(tensor))
    if keeper is not None:
        keeper.release()


def are_same(some: Iterable[Any], others: Iterable[Any]) -> bool:
    """Whether equally many objects are the same ones."""
    return all(map(operator.is_, some, others))


def have_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether two sequences hold the same objects."""
    return len(some) == len(others) and are_same(some, others)


def references(objects: Iterable[Any]) -> list[int]:
    """How many references there are to each object of a list, beside that of the list."""
    return [count - _ALONE for count in map(sys.getrefcount, objects)]


def _call_each(function: Any, *arguments: Iterable[Any]) -> None:
    collections.deque(map(function, *arguments), maxlen=0)
