"""Colours for a terminal, or none."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True, slots=True)
class Paint:
    """Wraps text in terminal colours where `on`.

    Written out rather than taken from rich, whose import takes longer than checking a file.
    """

    on: bool = False

    def bold(self, text: str) -> str:
        """Paths and headings."""
        return self._wrap("1", text)

    def code(self, text: str) -> str:
        """Rule codes and carets."""
        return self._wrap("1;31", text)

    def good(self, text: str) -> str:
        """What can be fixed, is verified, or is added."""
        return self._wrap("32", text)

    def bad(self, text: str) -> str:
        """What failed or is removed."""
        return self._wrap("31", text)

    def warn(self, text: str) -> str:
        """What was not run."""
        return self._wrap("33", text)

    def frame(self, text: str) -> str:
        """Gutters, separators and labels."""
        return self._wrap("1;34", text)

    def dim(self, text: str) -> str:
        """What matters less."""
        return self._wrap("2", text)

    def _wrap(self, style: str, text: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self.on and text else text


def paint_for(stream: TextIO, choice: str) -> Paint:
    """The colours for a stream under `--color`; `auto` follows the terminal, NO_COLOR and FORCE_COLOR."""
    if choice == "auto":
        if os.environ.get("NO_COLOR"):
            return Paint(on=False)
        if os.environ.get("FORCE_COLOR"):
            return Paint(on=True)
        return Paint(on=stream.isatty() and os.environ.get("TERM") != "dumb")
    return Paint(on=choice == "always")
