"""Edits within f-strings, which Python before 3.12 lets hold neither their own quotes nor backslashes."""

from __future__ import annotations

import ast
from dataclasses import replace

from tpulint.finding import Fix
from tpulint.source import Source

_QUOTES = "\"'"


def within(source: Source, formatted: ast.JoinedStr, fix: Fix) -> Fix | None:
    """A fix whose edits leave an f-string one; None where they would not."""
    span = source.span(formatted)
    text = source.text[span.start : span.end]
    inner = [one for one in fix.edits if span.start <= one.span.start and one.span.end <= span.end]
    if any(symbol in one.content for one in inner for symbol in "\\\n{}#"):
        return None
    first = next((symbol for symbol in text if symbol in _QUOTES), "")
    other = _QUOTES.replace(first, "")
    quoted = {id(one): replace(one, content=one.content.replace(first, other)) for one in inner}
    if any(first in one.content and other in one.content for one in inner):
        return None
    changed = text
    for one in sorted(quoted.values(), key=lambda edit: edit.span.start, reverse=True):
        changed = changed[: one.span.start - span.start] + one.content + changed[one.span.end - span.start :]
    if not _is_formatted(changed):
        return None
    return replace(fix, edits=tuple(quoted.get(id(one), one) for one in fix.edits))


def _is_formatted(text: str) -> bool:
    try:
        return isinstance(ast.parse(f"({text}\n)", mode="eval").body, ast.JoinedStr)
    except (SyntaxError, ValueError):
        return False
