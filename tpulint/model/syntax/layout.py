"""How code that a fix writes is laid out on lines."""

from __future__ import annotations

from collections.abc import Sequence

#: The longest line that a fix writes where it can break it.
WIDTH = 99


def call_lines(head: str, arguments: Sequence[str], indent: str, step: str, tail: str = "") -> list[str]:
    """The lines of `head(arguments)tail`: one line if it fits, else one or more for each argument.

    An argument may have several lines; `step` is what a block is indented by.
    """
    line = f"{indent}{head}({', '.join(arguments)}){tail}"
    if len(line) <= WIDTH and "\n" not in line:
        return [line]
    rows = [row for argument in arguments for row in f"{argument},".split("\n")]
    return [f"{indent}{head}(", *(f"{indent}{step}{row}" if row else "" for row in rows), f"{indent}){tail}"]
