"""Statements that share a row with others, and what gives each of them a row of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from tpulint.finding import Span
from tpulint.model.syntax.parsed_file import ParsedFile

_BETWEEN = re.compile(r"[ \t]*;[ \t]*")


def put_apart(module: ParsedFile, statements: Iterable[ast.stmt]) -> list[tuple[Span, str]] | None:
    """What replaces what lies between statements, and before them, on the rows of these.

    None where nothing does, or where something else than a semicolon, or the colon of a header, is there.
    """
    statements = list(statements)
    rows = {row for one in statements for row in range(one.lineno, (one.end_lineno or one.lineno) + 1)}
    blocks = {id(block): block for one in statements for block in _blocks(module, one)}
    found = [edit for block in blocks.values() for edit in _apart(module, block, rows)]
    edits = [edit for edit in found if edit is not None]
    return edits if edits and len(edits) == len(found) else None


def _blocks(module: ParsedFile, statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The block that a statement stands in."""
    parent = module.parent(statement)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and any(one is statement for one in block):
            yield block


def _apart(module: ParsedFile, block: list[ast.stmt], rows: set[int]) -> Iterator[tuple[Span, str] | None]:
    source, first = module.source, block[0]
    ahead = source.ahead_of(first)
    margin = ahead
    if ahead.strip():  # it stands behind a header
        margin = source.margin(first) + source.indent
        if first.lineno in rows:
            is_header = ahead.rstrip().endswith(":")
            start = source.span(first).start
            blanks = len(ahead) - len(ahead.rstrip())
            yield (Span(start - blanks, start), source.newline + margin) if is_header else None
    for one, other in pairwise(block):
        if one.end_lineno == other.lineno and (other.lineno in rows or ahead.strip()):
            between = Span(source.span(one).end, source.span(other).start)
            is_plain = _BETWEEN.fullmatch(source.text[between.start : between.end]) is not None
            yield (between, source.newline + margin) if is_plain else None
