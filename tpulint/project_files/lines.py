"""The lines of a text."""

from __future__ import annotations

from tpulint.finding import Span


def whole_lines(text: str, start: int, end: int) -> Span:
    """The lines in which a part of a text stands, with the end of the last one."""
    last = text.find("\n", end)
    return Span(text.rfind("\n", 0, start) + 1, len(text) if last < 0 else last + 1)
