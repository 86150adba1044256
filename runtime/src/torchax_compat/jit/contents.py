"""What a search over objects has read, to find out whether a second one would find the same."""

from __future__ import annotations

import itertools
import operator
import types
from collections.abc import Collection, Iterator
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

#: Of longer lists, only the first items are searched.
MOST_ITEMS = 1000
#: The method of the class of a module that computes it.
forward_of = operator.attrgetter("__class__.forward")
#: The attributes of a module that hold its parts.
_PARTS = ("_parameters", "_buffers", "_modules")
#: The attributes of every module that are no settings.
_INTERNAL = vars(torch.nn.Module()).keys() - {"training"}


class Contents:
    """The contents of objects: attributes, items, global names, and variables of closures."""

    def __init__(self) -> None:
        self._mappings: dict[int, dict[Any, Any]] = {}
        self._settings: dict[int, dict[str, Any]] = {}  # the attributes of torch's own modules
        self._sequences: list[Collection[Any]] = []
        self._names: list[str] = []
        self._named: list[dict[str, Any]] = []
        self._cells: list[types.CellType] = []
        self._modules: list[torch.nn.Module] = []
        self._filled: list[dict[Any, Any]] = []
        self._kept: list[Any] = []
        self._sizes: list[int] = []
        #: Whether they can be compared at each call.
        self.are_few = True

    def module(self, module: torch.nn.Module) -> None:
        """Add what computations of a module depend on: its attributes, parameters, buffers and submodules."""
        held = vars(module)
        if is_of_torch(module):  # most modules of most models: few of their attributes are settings
            for name in held.keys() - _INTERNAL:
                self.name(held, name)
            self._settings[id(held)] = held
        else:
            self.values(held)
        self._modules.append(module)
        for name in _PARTS:
            self.values(held[name])

    def values(self, mapping: dict[Any, Any]) -> None:
        """Add the values of a dictionary."""
        self._mappings[id(mapping)] = mapping
        self.are_few = self.are_few and len(mapping) <= MOST_ITEMS

    def items(self, sequence: Collection[Any]) -> None:
        """Add the items of a list, tuple or set."""
        self._sequences.append(sequence)
        self.are_few = self.are_few and len(sequence) <= MOST_ITEMS

    def name(self, names: dict[str, Any], name: str) -> None:
        """Add the value of a name, such as that of a global."""
        self._named.append(names)
        self._names.append(name)

    def cell(self, cell: types.CellType) -> None:
        """Add a variable of a closure."""
        self._cells.append(cell)

    def keep(self) -> None:
        """Keep what there is now, to compare with it later."""
        self._filled = [one for one in self._mappings.values() if one]
        self._kept, self._sizes = list(self._now()), self._sizes_now()

    def are_same(self) -> bool:
        """Whether all is the same objects as when it was kept."""
        return self._sizes_now() == self._sizes and all(map(operator.is_, self._now(), self._kept))

    def include(self, mapping: dict[Any, Any]) -> bool:
        """Whether the values of a dictionary were added."""
        return id(mapping) in self._mappings or id(mapping) in self._settings

    def _sizes_now(self) -> list[int]:
        return list(map(len, (*self._mappings.values(), *self._settings.values(), *self._sequences)))

    def _now(self) -> Iterator[Any]:
        """What there is, if the sizes of all are as they were: those that were empty still are."""
        chain = itertools.chain.from_iterable
        return itertools.chain(
            chain(map(dict.values, self._filled)),
            chain(map(dict.keys, self._filled)),
            chain(self._sequences),
            map(forward_of, self._modules),
            map(dict.get, self._named, self._names),
            map(_content, self._cells),
            (RemovableHandle.next_id,),  # of the next hook
        )


def is_of_torch(module: torch.nn.Module) -> bool:
    """Whether the class of a module is one of torch's own."""
    return type(module).__module__.startswith("torch.nn.")


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it has none yet
        return Contents
