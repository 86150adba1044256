"""Dictionaries and lists among the arguments that a traced function fills, such as one for logged values.

The function gets others with the same items.
Items that it adds are returned beside its results, and added to the arguments after the call.
If the function returns one of them, the caller gets the argument.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from ..adapters.torch_internals import pytree


def changes(before: Any, after: Any) -> Iterator[Any]:
    """The items that were added to dictionaries and lists among the arguments, and those that were removed.

    `before` and `after` are pairs of positional and keyword arguments.
    """
    places = [(0, i) for i in range(len(before[0]))] + [(1, name) for name in before[1]]
    for kind, place in places:
        was, now = before[kind][place], after[kind][place]
        if type(was) is dict and type(now) is dict:
            new: Any = {k: v for k, v in now.items() if k not in was or not _are_same(v, was[k])}
            gone = [k for k in was if k not in now]
        elif type(was) is list and type(now) is list:
            first = next(
                (i for i, (a, b) in enumerate(zip(was, now, strict=False)) if not _are_same(a, b)), len(was)
            )
            first = min(first, len(now))
            new, gone = now[first:], list(range(first, len(was)))
        else:
            continue
        if new or gone:
            yield (kind, place), new, gone


def apply(changed: Any, arguments: Any) -> None:
    """Apply the changes to the arguments of a call."""
    for (kind, place), new, gone in changed:
        held = arguments[kind][place]
        if isinstance(held, dict):
            for name in gone:
                held.pop(name, None)
            held.update(new)
        else:
            del held[len(held) - len(gone) :]
            held.extend(new)


class _Given:
    """A placeholder in a result for a dictionary or list that is an argument."""

    def __init__(self, kind: Any, place: Any) -> None:
        self.kind, self.place = kind, place


def with_placeholders(result: Any, arguments: Any) -> Any:
    """A result with placeholders for dictionaries and lists that are arguments."""
    held = [((0, i), one) for i, one in enumerate(arguments[0])]
    held += [((1, name), one) for name, one in arguments[1].items()]
    given = {id(one): _Given(*place) for place, one in held if type(one) in (dict, list)}
    return _each(result, lambda one: given.get(id(one), one)) if given else result


def with_arguments(result: Any, arguments: Any) -> Any:
    """The result with the arguments of a call in place of placeholders."""
    return _each(result, lambda one: arguments[one.kind][one.place] if type(one) is _Given else one)


def _each(result: Any, change: Any) -> Any:
    return tuple(map(change, result)) if type(result) is tuple else change(result)


def _are_same(one: Any, other: Any) -> bool:
    leaves, tree = pytree.tree_flatten(one)
    others, like = pytree.tree_flatten(other)
    return tree == like and all(map(operator.is_, leaves, others))
