"""The search for a minimal set of items without which a check passes, by delta debugging."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def minimal_exclusion(items: Sequence[T], passes: Callable[[frozenset[T]], bool]) -> frozenset[T]:
    """A minimal set of items to leave out so that a check passes: with one of them put back, it fails.

    This is the algorithm ddmin of Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input",
    IEEE Transactions on Software Engineering, 2002.
    If a single one of n items makes the check fail, it needs about 2 log2(n) calls of `passes`; in the worst
    case, on the order of n squared.

    Args:
        items: items without which the check passes.
        passes: whether the check passes without the given items. It is called once for each set.
    """
    known: dict[frozenset[T], bool] = {}

    def passes_without(part: Sequence[T]) -> bool:
        key = frozenset(part)
        if key not in known:
            known[key] = passes(key)
        return known[key]

    items, parts = list(items), 2
    while len(items) > 1:
        chunks = [items[len(items) * n // parts : len(items) * (n + 1) // parts] for n in range(parts)]
        rests = [[one for one in items if one not in chunk] for chunk in chunks] if parts > 2 else []
        smaller = next((part for part in [*chunks, *rests] if passes_without(part)), None)
        if smaller is not None:
            parts = 2 if smaller in chunks else max(parts - 1, 2)
            items = smaller
        elif parts >= len(items):
            break
        else:
            parts = min(2 * parts, len(items))
    return frozenset(items)
