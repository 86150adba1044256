"""What a fix would change, as a unified diff."""

from __future__ import annotations

import difflib

from tpulint.report.paint import Paint
from tpulint.report.paths import shown


def render(path: str, before: str, after: str, paint: Paint) -> str:
    """A diff that `patch -p0` or `git apply -p0` takes, run in the current folder."""
    name = shown(path)
    # Not `splitlines`: a form feed or a line separator inside a line does not end it for `patch`.
    old, new = _lines(before), _lines(after)
    lines = [
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(old, new, name, name)
    ]
    return "".join([*map(paint.bold, lines[:2]), *(_painted(line, paint) for line in lines[2:])])


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _painted(text: str, paint: Paint) -> str:
    if not paint.on:
        return text
    body, end = text[:-1], text[-1:]
    if text.startswith("@@"):
        return paint.frame(body) + end
    if text.startswith("+"):
        return paint.good(body) + end
    return paint.bad(body) + end if text.startswith("-") else text
