"""Which of many fixes are to blame: the reduction of a set to what is needed of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def reduced(left_out: Sequence[T], passes: Callable[[frozenset[T]], bool]) -> frozenset[T]:
    """A small set of items without which a check passes: each of its items is needed.

    This is the method of delta debugging; see Zeller and Hildebrandt, "Simplifying and Isolating
    Failure-Inducing Input", IEEE Transactions on Software Engineering, 2002.
    It takes about twice the binary logarithm of the number of items for one item that is to blame, and at
    most the square of the number.

    Args:
        left_out: items without which the check passes.
        passes: whether the check passes if some items are left out. Each set is asked about once.
    """
    known: dict[frozenset[T], bool] = {}

    def is_enough(items: Sequence[T]) -> bool:
        asked = frozenset(items)
        if asked not in known:
            known[asked] = passes(asked)
        return known[asked]

    items, parts = list(left_out), 2
    while len(items) > 1:
        chunks = [items[len(items) * n // parts : len(items) * (n + 1) // parts] for n in range(parts)]
        rests = [[one for one in items if one not in chunk] for chunk in chunks] if parts > 2 else []
        smaller = next((part for part in [*chunks, *rests] if is_enough(part)), None)
        if smaller is not None:
            parts = 2 if smaller in chunks else max(parts - 1, 2)
            items = smaller
        elif parts >= len(items):
            break
        else:
            parts = min(2 * parts, len(items))
    return frozenset(items)
