"""What a search over objects has read, to find out whether a second one would find the same."""

from __future__ import annotations

import itertools
import operator
import types
from collections.abc import Collection
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
        self._kept, self._sizes = self._now(), self._sizes_now()

    def are_same(self) -> bool:
        """Whether all is the same objects as when it was kept."""
        if self._sizes_now() != self._sizes:
            return False
        return all(map(operator.is_, self._now(), self._kept))

    def include(self, mapping: dict[Any, Any]) -> bool:
        """Whether the values of a dictionary were added."""
        return id(mapping) in self._mappings or id(mapping) in self._settings

    def _sizes_now(self) -> list[int]:
        return list(map(len, (*self._mappings.values(), *self._settings.values(), *self._sequences)))

    def _now(self) -> list[Any]:
        chain = itertools.chain.from_iterable
        found = list(chain(map(dict.values, self._mappings.values())))
        found += chain(map(dict.keys, self._mappings.values()))
        found += chain(self._sequences)
        found += map(forward_of, self._modules)
        found += map(dict.get, self._named, self._names)
        found += map(_content, self._cells)
        found.append(RemovableHandle.next_id)  # of the next hook
        return found


def is_of_torch(module: torch.nn.Module) -> bool:
    """Whether the class of a module is one of torch's own."""
    return type(module).__module__.startswith("torch.nn.")


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it has none yet
        return Contents
