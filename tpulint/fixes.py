"""Applying fixes to a text: whole fixes, first come first served, none over another."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from tpulint.finding import Edit, Fix


def apply(text: str, fixes: Iterable[Fix]) -> tuple[str, tuple[Fix, ...]]:
    """The text with as many of the fixes as do not collide, in their order, and which those are.

    An edit that an earlier fix made already, such as a shared import, is taken once.
    A fix that overlaps or touches an edit already taken is left for the next round, after the
    result has been analysed anew; one whose own edits overlap never lands.
    """
    taken: dict[Edit, None] = {}
    applied: list[Fix] = []
    for fix in fixes:
        fresh = [edit for edit in fix.edits if edit not in taken]
        if any(edit.span.overlaps(other.span) for edit in fresh for other in taken) or _tangled(fix):
            continue
        taken.update(dict.fromkeys(fresh))
        applied.append(fix)
    for edit in sorted(taken, reverse=True):
        text = text[: edit.span.start] + edit.content + text[edit.span.end :]
    return text, tuple(applied)


def _tangled(fix: Fix) -> bool:
    """Whether two different edits of a fix want to change the same characters."""
    edits = sorted(set(fix.edits))
    return any(one.span.end > other.span.start for one, other in pairwise(edits))
