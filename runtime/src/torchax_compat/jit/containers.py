"""The contents of dictionaries, lists and sets, which a program may change in place."""

from __future__ import annotations

from collections import deque
from typing import Any

from ..adapters.torch_internals import pytree

#: The types of containers that can be changed.
KINDS = (list, dict, set, deque)
#: Types of values that are compared.
PLAIN = (bool, int, float, str, type(None))


def items(container: Any) -> Any:
    """The items of a container, or the values of a dictionary."""
    return dict.values(container) if isinstance(container, dict) else container


def content(value: Any) -> Any:
    """The items of a container, as a dictionary or a list."""
    if isinstance(value, set):
        return dict.fromkeys(value)
    if isinstance(value, dict):  # a subclass may compute its items
        return dict(dict.items(value))
    return list(value) if isinstance(value, KINDS) else None


def same(one: Any, other: Any) -> bool:
    """Whether two contents have the same items."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    return len(one) == len(other) and all(map(_is_same, one, other))


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values are the same object, or equal plain values."""
    return one is other or (type(one) is type(other) and isinstance(one, PLAIN) and one == other)


def refill(container: Any, content: Any) -> None:
    """Replace the items of a container."""
    container.clear()
    if isinstance(container, (dict, set)):
        container.update(content)
    else:
        container.extend(content)


class Nested:
    """The items of the containers within a container, apart from those of which the `id` is `watched`."""

    def __init__(self, container: Any, watched: Any = frozenset()) -> None:
        are_containers = isinstance(container, (*KINDS, tuple)) and any(
            isinstance(one, (*KINDS, tuple)) and id(one) not in watched for one in items(container)
        )
        self._leaves, self._shape = pytree.tree_flatten(container) if are_containers else ([], None)

    def are_none(self) -> bool:
        """Whether there are no such containers."""
        return self._shape is None

    def are_same(self, container: Any) -> bool:
        """Whether a container has the same items in those within it."""
        if self.are_none():
            return True
        leaves, shape = pytree.tree_flatten(container)
        return bool(shape == self._shape) and same(leaves, self._leaves)
