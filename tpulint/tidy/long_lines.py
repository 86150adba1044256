"""Lines that fixes made longer than the lines of the project may be."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tpulint.tidy.text import indent_of, lines_of, new_rows, nodes, parsed, parted

_OPENING, _CLOSING = "([{", ")]}"


def wrapped(before: str, after: str, width: int) -> str:
    """`after` with the lines that `before` lacks, and that are longer than `width`, split at brackets.

    The contents of the last brackets go to lines of their own, as the formatters black and ruff do it: all on
    one line if they fit, or else one item a line. Lines without brackets stay, and so do lines with comments,
    and lines that are part of a longer statement.
    """
    lines = lines_of(after)
    long = [row for row in new_rows(before, after) if len(lines[row - 1].rstrip()) > width]
    if not long:
        return after
    whole = _statements_of_one_row(after)
    step = _step(lines)
    for row in sorted(long, reverse=True):
        if row not in whole:
            continue
        bare, ending = parted(lines[row - 1])
        made = _split(bare, width, step)
        if made is not None:
            lines[row - 1] = (ending or "\n").join(made) + ending
    text = "".join(lines)
    return text if _same(after, text) else after


def _same(one: str, other: str) -> bool:
    try:
        return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))
    except SyntaxError:
        return False


def _statements_of_one_row(text: str) -> set[int]:
    """The rows that hold one statement, or the head of one, and nothing else."""
    rows: dict[int, int] = {}
    heads: set[int] = set()
    several: set[int] = set()
    for node in nodes(text):
        if not isinstance(node, ast.stmt):
            continue
        decorators = getattr(node, "decorator_list", [])
        heads |= {one.lineno for one in decorators if one.lineno == one.end_lineno}
        if node.lineno in rows:
            several.add(node.lineno)
        body = getattr(node, "body", None)
        end = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or node.lineno
        rows[node.lineno] = end
        if node.lineno >= end or isinstance(body, list):
            heads.add(node.lineno)
    return heads - several


def _step(lines: list[str]) -> str:
    """The indentation of the file."""
    indented = (line[: len(line) - len(line.lstrip())] for line in lines if line.strip())
    first = next((one for one in indented if one), "    ")
    return "\t" if first.startswith("\t") else first[:4]


@dataclass(frozen=True, slots=True)
class _Pair:
    """Brackets of a line: the columns of both, and those of the commas right between them."""

    opening: int
    closing: int
    commas: tuple[int, ...]
    has_lambda: bool


def _split(line: str, width: int, step: str, *, is_inside: bool = False) -> list[str] | None:
    """The line as several; None where it cannot be split.

    `is_inside` says that it stands in brackets, so that it may end anywhere.
    """
    indent = indent_of(line)
    parts = _parts(line)
    if parts is not None:
        head, operands, tail = parts
        inner = indent if is_inside else indent + step
        rows = [inner + operand for operand in operands]
        whole = inner + " ".join(operands)
        if not is_inside and len(whole) <= width:
            rows = [whole]
        made = [part for row in rows for part in _fitting(row, width, step)]
        if is_inside:
            return [*made[:-1], made[-1] + tail] if not head else None
        return [f"{indent}{head}(", *made, f"{indent}){tail}"]
    pairs = _pairs(line)
    for pair in sorted(pairs or (), key=lambda one: -one.closing):
        head, tail = line[: pair.opening + 1], line[pair.closing :]
        inside = line[pair.opening + 1 : pair.closing].strip()
        if not inside or len(head) > width or len(f"{indent}{tail}") > width:
            continue
        inner = indent + step
        if len(inner + inside) <= width:
            return [head, inner + inside, f"{indent}{tail}"]
        items = _items(line, pair)
        clauses = _clauses(line[pair.opening : pair.closing + 1])
        if clauses:
            made = [row for clause in clauses for row in _fitting(f"{inner}{clause}", width, step)]
        elif len(items) == 1:
            made = _fitting(inner + inside, width, step)
        else:
            made = [row for item in items for row in _fitting(f"{inner}{item},", width, step)]
        return [head, *made, f"{indent}{tail}"]
    return None


def _fitting(line: str, width: int, step: str) -> list[str]:
    """A line within brackets, split if it is too long."""
    if len(line) <= width:
        return [line]
    return _split(line, width, step, is_inside=True) or [line]


def _parts(line: str) -> tuple[str, list[str], str] | None:
    """What is before the operands of a line's value, the operands with their operators, and what is behind.

    None where the value is no operation, or one in parentheses.
    """
    text = line.strip()
    tail = "," if text.endswith(",") else ""
    text = text.removesuffix(",")
    try:
        statements = parsed(text).body
    except SyntaxError:
        return None
    value = getattr(statements[0], "value", None) if len(statements) == 1 else None
    if not isinstance(value, ast.expr) or value.end_col_offset != len(text.encode()):
        return None
    data = text.encode()
    if isinstance(value, ast.Tuple) and value.elts and value.col_offset == value.elts[0].col_offset:
        rows = [f"{data[e.col_offset : e.end_col_offset].decode()}," for e in value.elts]
        return data[: value.col_offset].decode(), rows, tail
    operands = _operands(value)
    if len(operands) < 2:
        return None
    starts = [value.col_offset, *(start for start, _ in _cuts(operands, data))]
    ends = [*starts[1:], len(data)]
    rows = [data[start:end].decode().strip() for start, end in zip(starts, ends, strict=True)]
    return data[: value.col_offset].decode(), rows, tail


def _operands(value: ast.expr) -> list[ast.expr]:
    """The operands of the outermost operation, in the order of the text."""
    match value:
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return [body, test, orelse]
        case ast.BoolOp(values=values):
            return values
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            is_sum = isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add | ast.Sub)
            is_sum = is_sum and left.col_offset == value.col_offset  # not in parentheses
            return [*(_operands(left) if is_sum else [left]), right]
        case ast.BinOp(left=left, right=right):
            return [left, right]
    return []


def _cuts(operands: list[ast.expr], data: bytes) -> Iterator[tuple[int, ast.expr]]:
    """Where the operator in front of each operand but the first begins."""
    for former, operand in pairwise(operands):
        start = former.end_col_offset or 0
        while data[start : start + 1] in (b" ", b")"):
            start += 1
        yield start, operand


def _clauses(text: str) -> list[str]:
    """What a comprehension in brackets makes, and each of its `for`, with the conditions of that."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return []
    if not isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return []
    if any(one.is_async for one in node.generators) or not text.isascii():
        return []
    cuts = [1, *(text.rindex("for", 0, one.target.col_offset) for one in node.generators), len(text) - 1]
    return [text[a:b].strip() for a, b in pairwise(cuts)]


def _items(line: str, pair: _Pair) -> list[str]:
    """What is between the commas of brackets; a subscript is one item, as a comma would make it a tuple."""
    inside = line[pair.opening + 1 : pair.closing].strip()
    if pair.has_lambda or line[pair.opening] == "[" or not pair.commas:
        return [inside]
    cuts = [pair.opening, *pair.commas, pair.closing]
    items = [line[a + 1 : b].strip() for a, b in pairwise(cuts)]
    return [item for item in items if item]


def _pairs(line: str) -> list[_Pair] | None:
    """The brackets of a line that are in no others; None for a part of a line, or one with a comment."""
    found: list[_Pair] = []
    depth, opening, commas, has_lambda = 0, 0, list[int](), False
    try:
        for token in tokenize.generate_tokens(io.StringIO(line.strip() + "\n").readline):
            column = token.start[1] + len(line) - len(line.lstrip())
            if token.type == tokenize.COMMENT or token.start[0] > 2:
                return None
            if token.type == tokenize.OP and token.string in _OPENING:
                if depth == 0:
                    opening, commas, has_lambda = column, [], False
                depth += 1
            elif token.type == tokenize.OP and token.string in _CLOSING:
                depth -= 1
                if depth == 0:
                    found.append(_Pair(opening, column, tuple(commas), has_lambda))
            elif depth == 1 and token.string == "," and token.type == tokenize.OP:
                commas.append(column)
            elif depth == 1 and token.type == tokenize.NAME and token.string == "lambda":
                has_lambda = True
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return None
    return found
