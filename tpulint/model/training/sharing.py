"""Statements that share a line with others, and so have to be put on lines of their own first."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from tpulint.plan import Kind, Rewrite, path_of

if TYPE_CHECKING:
    from tpulint.model.syntax.parsed_file import ParsedFile


def put_apart(module: ParsedFile, statements: Iterable[ast.stmt]) -> list[Rewrite] | None:
    """The rewrites that give each statement on these lines a line of its own; None where all have one."""
    statements = list(statements)
    rows = {row for one in statements for row in range(one.lineno, (one.end_lineno or one.lineno) + 1)}
    blocks = {id(block): block for one in statements for block in _blocks(module, one)}
    shared = [one for block in blocks.values() for one in _sharing(module, block, rows)]
    return [Rewrite(path_of(one, module.parent), Kind.SPLIT) for one in shared] or None


def _blocks(module: ParsedFile, statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The block that a statement stands in."""
    parent = module.parent(statement)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and any(one is statement for one in block):
            yield block


def _sharing(module: ParsedFile, block: list[ast.stmt], rows: set[int]) -> Iterator[ast.stmt]:
    """The first statement of each line that holds several, or stands behind the header of its block."""
    first = block[0]
    if module.source.ahead_of(first).strip():  # it stands behind a header, and so do all
        if not rows.isdisjoint(one.lineno for one in block):
            yield first
        return
    told: int | None = None
    for one, other in pairwise(block):
        is_asked = not rows.isdisjoint((one.end_lineno, other.lineno))
        if is_asked and told != other.lineno and module.source.ahead_of(other).strip():
            told = other.lineno
            yield one
