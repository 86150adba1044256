"""The origin of the tensors that a call returns: new, or an argument, as a whole or as a view."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torchax
from torchax.view import View

from . import tensor_objects


class Origin(NamedTuple):
    """The origin of a tensor in a result, and the views between."""

    source: str
    place: int
    views: tuple[Any, ...] = ()

    def tensor(self, sources: Any) -> Any:
        """The tensor, from the tensors of each source."""
        tensor = sources[self.source][self.place]
        for view in self.views:
            tensor = View(tensor, view, torchax.default_env())
        return tensor


def root(tensor: Any) -> Any:
    """The tensor behind a view, or the tensor itself, and the views between."""
    views: list[Any] = []
    while isinstance(tensor, View):
        views.insert(0, tensor.view_info)
        tensor = tensor.parent
    return tensor, tuple(views)


def containers(value: Any) -> Any:
    """The `id`s of the lists and dictionaries in a value."""
    items: Iterable[Any]
    if isinstance(value, (list, tuple)):
        items = value
    elif isinstance(value, dict):
        items = dict.values(value)
    elif isinstance(value, tensor_objects.Record):
        items = tuple(value.values)
    else:
        return set()
    return set().union(() if isinstance(value, tuple) else {id(value)}, *map(containers, items))
