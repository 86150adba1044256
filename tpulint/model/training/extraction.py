"""A region of statements as a function of its own, and the statement that calls it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tpulint.finding import Span
from tpulint.model.syntax.effects import effects, place
from tpulint.model.syntax.layout import call_lines
from tpulint.model.training.regions import Region
from tpulint.source import Source

if TYPE_CHECKING:
    from tpulint.model.syntax.parsed_file import ParsedFile


@dataclass(frozen=True, slots=True)
class Extraction:
    """The text of a function, and of what takes the place of the region's lines `span`."""

    definition: str
    call: str
    span: Span


def extraction(
    module: ParsedFile,
    region: Region,
    name: str,
    decorator: str,
    parameters: Mapping[str, str],
    results: Mapping[str, str],
    arguments: Mapping[str, str],
    *,
    method: ast.stmt | None,
) -> Extraction | None:
    """Write a region as a function.

    Args:
        module: the file.
        region: what to move.
        name: the function's name.
        decorator: what is written above it, without `@`.
        parameters: the function's parameters, by the places whose values they get.
        results: the names in the function of what it returns, by the places that get them.
        arguments: what the call gives for places that may have no value yet.
        method: the method beside which it becomes one, its first parameter being `self`, if it does.

    Returns:
        None where the layout does not allow it, such as two statements on one line.
    """
    lines = _Lines(module, region)
    if not lines.are_plain:
        return None
    renamed = {**parameters, **results}
    outer = module.source.margin(method) if method is not None else ""
    step = module.source.indent
    inner = outer + step
    newline = module.source.newline
    body = [lines.moved(statement, inner, renamed) for statement in region.statements]
    head = call_lines(f"def {name}", list(parameters.values()), outer, step, ":")
    returned = [f"{inner}return {', '.join(results.values())}"] if results else []
    definition = newline.join(
        [
            f"{outer}@{decorator}",
            *head,
            *(line for chunk in body for line in chunk),
            *returned,
        ]
    )
    given = [arguments.get(place, place) for place in list(parameters)[method is not None :]]
    callee = f"{'self.' if method is not None else ''}{name}"
    left = f"{', '.join(results)} = " if results else ""
    call = call_lines(f"{left}{callee}", given, lines.indent, step, "")
    ahead = [line for statement in region.ahead for line in lines.kept(statement)]
    while ahead and not ahead[0].strip() and lines.is_below_blank:
        del ahead[0]
    behind = [line for statement in region.behind for line in lines.kept(statement)]
    return Extraction(f"{definition}{newline}", newline.join([*ahead, *call, *behind]), lines.span)


class _Lines:
    """The lines of a region's statements, each with the comments above it."""

    def __init__(self, module: ParsedFile, region: Region) -> None:
        self._source = source = module.source
        self._statements = region.span
        first, last = self._statements[0], self._statements[-1]
        # What is said of a statement that moves is said where it goes.
        self._first = _commented_from(source, first) if first in region.statements else first.lineno
        self._starts: dict[int, int] = {}
        row = self._first
        for statement in self._statements:
            self._starts[id(statement)] = row
            row = (statement.end_lineno or statement.lineno) + 1
        self.span = Span(source.line_starts[self._first - 1], _end(source, last.end_lineno or last.lineno))
        self.indent = source.margin(first)

    @property
    def are_plain(self) -> bool:
        """Whether each statement begins a line of its own, and nothing else stands on its last one."""
        rows = [(s.lineno, s.end_lineno or s.lineno) for s in self._statements]
        apart = all(one[1] < other[0] for one, other in pairwise(rows))
        begins = all(not self._source.line(s.lineno)[: len(self.indent)].strip() for s in self._statements)
        alone = all(self._source.line(s.lineno)[: s.col_offset].strip() == "" for s in self._statements)
        ends = all(self._tail(s).split("#")[0].strip() in ("", ";") for s in self._statements)
        return apart and begins and alone and ends

    @property
    def is_below_blank(self) -> bool:
        """Whether a blank line is above the first line."""
        return self._first > 1 and not self._source.line(self._first - 1).strip()

    def _tail(self, statement: ast.stmt) -> str:
        line = self._source.line(statement.end_lineno or statement.lineno)
        return line.encode()[statement.end_col_offset or 0 :].decode(errors="ignore")

    def kept(self, statement: ast.stmt) -> list[str]:
        """A statement's lines as they are."""
        rows = range(self._starts[id(statement)], (statement.end_lineno or statement.lineno) + 1)
        return [self._source.line(row) for row in rows]

    def moved(self, statement: ast.stmt, indent: str, renamed: Mapping[str, str]) -> list[str]:
        """A statement's lines at another indent, some places under other names."""
        first = self._starts[id(statement)]
        lines = self.kept(statement)
        found = effects([statement])
        nodes = {
            (node.lineno, node.col_offset): (node, new)  # `self.count += 1` both reads and writes it
            for old, new in renamed.items()
            if old != new
            for node in (*found.reads.get(old, ()), *found.writes.get(old, ()))
            if place(node) == old
        }
        for node, new in sorted(nodes.values(), key=lambda item: (-item[0].lineno, -item[0].col_offset)):
            _rename(lines, node, new, first)
        strings = _string_rows(statement)
        return [self._reindented(line, indent, first + i in strings) for i, line in enumerate(lines)]

    def _reindented(self, line: str, indent: str, within_string: bool) -> str:
        if within_string or not line.strip():
            return line if within_string else ""
        return indent + (line.removeprefix(self.indent) if line.startswith(self.indent) else line.lstrip())


def _rename(lines: list[str], node: ast.expr, new: str, first: int) -> None:
    """Write another name for a name or an attribute, in lines of which the first one has row `first`.

    An attribute may stand in another line than its object; the lines stay as many as they were.
    """
    assert node.end_lineno is not None
    start, end = node.lineno - first, node.end_lineno - first
    head, last = lines[start].encode(), lines[end].encode()
    rest = last[node.end_col_offset :]
    if start == end:
        lines[start] = (head[: node.col_offset] + new.encode() + rest).decode()
        return
    assert isinstance(node, ast.Attribute)
    tail = head[node.value.end_col_offset :] if node.value.end_lineno == node.lineno else b""
    lines[start] = (head[: node.col_offset] + new.encode() + _without_dot(tail)).decode()
    for row in range(start + 1, end):
        lines[row] = _without_dot(lines[row].encode()).decode()
    lines[end] = (last[: len(last) - len(last.lstrip())] + rest).decode()


def _without_dot(text: bytes) -> bytes:
    """The rest of a line without the dot of an attribute that it begins with."""
    return text.lstrip()[1:] if text.lstrip().startswith(b".") else text


def _commented_from(source: Source, statement: ast.stmt) -> int:
    """The row of the first comment that stands right above a statement, or its own row."""
    row, indent = statement.lineno, source.margin(statement)
    while row > 1 and source.line(row - 1).startswith(f"{indent}#"):
        row -= 1
    return row


def _end(source: Source, row: int) -> int:
    """The offset behind a row's text, before its line ending."""
    return source.line_starts[row - 1] + len(source.line(row))


def _string_rows(statement: ast.stmt) -> set[int]:
    """The rows that begin within a string of several lines."""
    return {
        row
        for node in ast.walk(statement)
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno is not None
        for row in range(node.lineno + 1, node.end_lineno + 1)
        if isinstance(node, ast.JoinedStr) or isinstance(node.value, str | bytes)
    }
