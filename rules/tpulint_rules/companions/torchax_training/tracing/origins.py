"""Where the tensors come from that a call gives: what it made, or what it was given, as a view or whole."""

from __future__ import annotations

from typing import NamedTuple

import torchax
from torchax.view import View

from . import records


class Origin(NamedTuple):
    """Where a tensor of a result comes from, and by which views it is seen."""

    source: str
    index: int
    views: tuple = ()

    def tensor(self, sources):
        tensor = sources[self.source][self.index]
        for view in self.views:
            tensor = View(tensor, view, torchax.default_env())
        return tensor


def root(tensor):
    """The tensor that a view shows, or the tensor itself, and the views on the way from it."""
    views = []
    while isinstance(tensor, View):
        views.insert(0, tensor.view_info)
        tensor = tensor.parent
    return tensor, tuple(views)


def containers(value):
    """The ids of the lists and dictionaries in a value."""
    if isinstance(value, (list, tuple)):
        items = value
    elif isinstance(value, dict):
        items = dict.values(value)
    elif isinstance(value, records.Record):
        items = tuple(value.values)
    else:
        return set()
    return set().union(() if isinstance(value, tuple) else {id(value)}, *map(containers, items))
