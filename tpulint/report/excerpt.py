"""A source line and a place in it, as a terminal can show them."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

TAB = 4
WIDTH = 120
"""The most columns that an excerpt takes: a minified line of a megabyte still gives one readable row."""

_ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A line made printable, and the underline that stands below it."""

    line: str
    underline: str


def excerpt(line: str, column: int, end_column: int | None, width: int = WIDTH) -> Excerpt:
    """The line around the characters from `column` up to `end_column` (from 1; `None`: the line's end)."""
    place = min(max(column - 1, 0), len(line))
    end = len(line.rstrip()) if end_column is None else min(end_column - 1, len(line))
    offset = max(0, place - width)
    cells = [_cell(character) for character in line[offset : place + width]]
    first, last = _window([size for _, size in cells], place - offset, width, whole=offset == 0)
    text = _ELLIPSIS if offset + first > 0 else ""
    at, before, after = len(text), len(text), len(text)
    for index in range(first, last):
        cell, size = cells[index]
        if cell == "\t":
            size = TAB - at % TAB
            cell = " " * size
        text += cell
        at += size
        if offset + index < place:
            before = at
        if offset + index < end:
            after = at
    if offset + last < len(line):
        text += _ELLIPSIS
    return Excerpt(text.rstrip(), " " * before + "^" * max(after - before, 1))


def _window(sizes: list[int], place: int, width: int, *, whole: bool) -> tuple[int, int]:
    """The range of cells to show: all of them if they fit, or else about a third of them before the place.

    `whole` says that the cells begin where the line does.
    """
    first = place
    if whole and sum(sizes[:place]) <= width * 2 // 3:
        first = 0
    else:
        room = width // 3
        while first > 0 and sizes[first - 1] <= room:
            first -= 1
            room -= sizes[first]
    last, room = first, width
    while last < len(sizes) and sizes[last] <= room:
        room -= sizes[last]
        last += 1
    return first, last


def _cell(character: str) -> tuple[str, int]:
    """What to print for a character, and how many columns that takes."""
    if " " <= character <= "~":
        return character, 1
    if character == "\t":
        return character, TAB
    category = unicodedata.category(character)
    if category == "Cc":
        # An escape sequence in a source line must not reach the terminal.
        return (chr(0x2400 + ord(character)) if ord(character) < 0x20 else "\ufffd"), 1
    if category in ("Zl", "Zp", "Cs") or unicodedata.bidirectional(character) in _REORDERING:
        return "\ufffd", 1
    if category in ("Mn", "Me", "Cf"):
        return character, 0
    return character, 2 if unicodedata.east_asian_width(character) in "WF" else 1


_REORDERING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
