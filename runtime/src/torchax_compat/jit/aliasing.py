"""The origin of the tensors that a call returns: new, or an argument, as a whole or as a view."""

from __future__ import annotations

from typing import NamedTuple

import torchax
from torchax.view import View

from . import tensor_objects


class Origin(NamedTuple):
    """The origin of a tensor in a result, and the views between."""

    source: str
    index: int
    views: tuple = ()

    def tensor(self, sources):
        tensor = sources[self.source][self.index]
        for view in self.views:
            tensor = View(tensor, view, torchax.default_env())
        return tensor


def root(tensor):
    """The tensor behind a view, or the tensor itself, and the views between."""
    views = []
    while isinstance(tensor, View):
        views.insert(0, tensor.view_info)
        tensor = tensor.parent
    return tensor, tuple(views)


def containers(value):
    """The `id`s of the lists and dictionaries in a value."""
    if isinstance(value, (list, tuple)):
        items = value
    elif isinstance(value, dict):
        items = dict.values(value)
    elif isinstance(value, tensor_objects.Record):
        items = tuple(value.values)
    else:
        return set()
    return set().union(() if isinstance(value, tuple) else {id(value)}, *map(containers, items))
