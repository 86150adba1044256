"""The requirements of setup.py, as far as they are written in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tpulint.finding import Span
from tpulint.project_files import packages
from tpulint.project_files.lines import whole_lines
from tpulint.project_files.parts import Part

_LISTS = frozenset({"install_requires", "extras_require", "setup_requires", "tests_require"})


def parts(text: str) -> Iterator[Part]:
    """The requirements in the lists that are passed to `setup`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]
    file = _File(
        text,
        starts,
        {
            target.id: statement.value
            for statement in tree.body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name)
        },
    )
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    seen: set[ast.expr] = set()
    for call in calls:
        for word in call.keywords:
            if word.arg in _LISTS:
                yield from _within(word.value, file, seen)


@dataclass(frozen=True, slots=True)
class _File:
    """The text, the offsets of its lines, and the values of the names that it assigns at its top level."""

    text: str
    starts: list[int]
    assigned: Mapping[str, ast.expr]

    def offset(self, row: int, byte_column: int) -> int:
        start = self.starts[row - 1]
        line = self.text[start : self.starts[row] if row < len(self.starts) else len(self.text)]
        return start + len(line.encode()[:byte_column].decode())


def _within(node: ast.expr, file: _File, seen: set[ast.expr]) -> Iterator[Part]:
    """The requirements in a list, in the lists of a mapping, or in what a name stands for."""
    if node in seen:
        return
    seen.add(node)
    match node:
        case ast.Constant(value=str(value)):
            end_row, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
            span = Span(file.offset(node.lineno, node.col_offset), file.offset(end_row, end_column))
            if file.text[span.start + 1 : span.end - 1] == value:  # without a prefix or escapes
                found = packages.requirement(value, span.start + 1, _line(file.text, span))
                yield from [found] if found else []
        case ast.List(elts=items) | ast.Tuple(elts=items):
            for item in items:
                yield from _within(item, file, seen)
        case ast.Dict(values=items):
            for item in items:
                yield from _within(item, file, seen)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _within(left, file, seen)
            yield from _within(right, file, seen)
        case ast.Name(id=name) if name in file.assigned:
            yield from _within(file.assigned[name], file, seen)


def _line(text: str, span: Span) -> Span | None:
    """The line of an item that has it to itself."""
    lines = whole_lines(text, span.start, span.end)
    before, behind = text[lines.start : span.start], text[span.end : lines.end].partition("#")[0]
    return lines if not before.strip() and behind.strip() == "," else None
