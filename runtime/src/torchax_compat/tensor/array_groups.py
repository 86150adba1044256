"""The arrays of many tensors, read and replaced at once: one by one, that takes longer than a small step."""

from __future__ import annotations

import collections
import itertools
import operator
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torchax.tensor import Tensor

from . import arrays

_array = operator.itemgetter("_elem")
#: The references to an object that only a list holds, when they are counted.
_ALONE = max(map(sys.getrefcount, [object()]))


class ArrayGroup:
    """The arrays of some tensors on torchax; the list of tensors is kept, not copied."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.tensors = tensors
        self._are_plain = all(type(one) is Tensor for one in tensors)
        self._held = list(map(vars, tensors))

    def get(self) -> list[Any]:
        """The arrays."""
        if self._are_plain and not self.have("_taken"):
            try:
                return list(map(_array, self._held))
            except KeyError:  # one that is computed later
                pass
        return list(map(arrays.array_of, self.tensors))

    def put(self, values: Iterable[Any]) -> None:
        """Replace the arrays."""
        if self._are_plain:
            _call_each(dict.__setitem__, self._held, itertools.repeat("_elem"), values)
        else:
            _call_each(arrays.put, self.tensors, values)

    def forget(self) -> None:
        """Let the arrays be computed later."""
        _call_each(dict.pop, self._held, itertools.repeat("_elem"), itertools.repeat(None))

    def have(self, name: str) -> bool:
        """Whether one of the tensors has an attribute."""
        return any(map(operator.contains, self._held, itertools.repeat(name)))


def are_same(some: Iterable[Any], others: Iterable[Any]) -> bool:
    """Whether equally many objects are the same ones."""
    return all(map(operator.is_, some, others))


def references(objects: Iterable[Any]) -> list[int]:
    """How many references there are to each object of a list, beside that of the list."""
    return [count - _ALONE for count in map(sys.getrefcount, objects)]


def _call_each(function: Any, *arguments: Iterable[Any]) -> None:
    collections.deque(map(function, *arguments), maxlen=0)
