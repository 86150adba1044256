"""Dictionaries and lists that a traced function is given and fills, such as one that keeps what is logged.

Within the function they are others, with the same content; what it puts into them comes out of it beside its
results, and is put into those that it was called with.
"""

from __future__ import annotations

import operator

from torch.utils import _pytree as pytree


def changes(before, after):
    """What was put into dictionaries and lists among arguments, and what was taken out, by their places.

    `before` and `after` are positional arguments and those by name.
    """
    places = [(0, i) for i in range(len(before[0]))] + [(1, name) for name in before[1]]
    for kind, place in places:
        was, now = before[kind][place], after[kind][place]
        if type(was) is dict and type(now) is dict:
            new = {k: v for k, v in now.items() if k not in was or not _are_same(v, was[k])}
            gone = [k for k in was if k not in now]
        elif type(was) is list and type(now) is list:
            first = next((i for i, (a, b) in enumerate(zip(was, now)) if not _are_same(a, b)), len(was))
            first = min(first, len(now))
            new, gone = now[first:], list(range(first, len(was)))
        else:
            continue
        if new or gone:
            yield (kind, place), new, gone


def put(changed, arguments):
    """Put it into the arguments of a call."""
    for (kind, place), new, gone in changed:
        held = arguments[kind][place]
        if isinstance(held, dict):
            for name in gone:
                held.pop(name, None)
            held.update(new)
        else:
            del held[len(held) - len(gone) :]
            held.extend(new)


def _are_same(one, other):
    leaves, tree = pytree.tree_flatten(one)
    others, like = pytree.tree_flatten(other)
    return tree == like and all(map(operator.is_, leaves, others))
