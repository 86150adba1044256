"""What becomes of blocks when the `with` or the condition around them goes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tpulint.finding import Span
from tpulint.source import Source

_COLON = re.compile(r"[\s),\\]*:[ \t]*")


def without_item(source: Source, statement: ast.With, item: ast.withitem) -> list[tuple[Span, str]] | None:
    """Edits that take one item out of a `with`, or the whole `with` from around its body.

    None where its layout is unusual. Lines inside of strings keep their indentation.
    """
    if len(statement.items) > 1:
        position = statement.items.index(item)
        start = source.span(item.context_expr).start
        if position + 1 < len(statement.items):
            return [(Span(start, source.span(statement.items[position + 1].context_expr).start), "")]
        return [(Span(_end(source, statement.items[position - 1]), _end(source, item)), "")]
    text, first = source.text, statement.body[0]
    head, body = source.span(statement).start, source.span(first).start
    colon = _COLON.match(text, _end(source, item))
    if colon is None:
        return None
    row = source.location(colon.end()).row
    if row == source.location(body).row:
        return [(Span(head, body), "")]
    indent, outdent = _indent(source, body), _indent(source, head)
    if indent is None or outdent is None or not indent.startswith(outdent):
        return None
    edits = [(Span(source.line_starts[statement.lineno - 1], source.line_starts[row]), "")]
    inside = _rows_in_strings(statement)
    last = source.location(source.span(statement).end).row
    for number in range(row + 1, last + 1):
        start = source.line_starts[number - 1]
        line = source.line(number)
        blank = len(line) - len(line.lstrip(" \t"))
        if number not in inside and blank < len(line.rstrip()):
            end = start + min(len(indent) - len(outdent), blank)
            if edits[-1][0].end == start:  # edits that touch count as one another's rivals
                start = edits.pop()[0].start
            edits.append((Span(start, end), ""))
    return edits


def _end(source: Source, item: ast.withitem) -> int:
    return source.span(item.optional_vars or item.context_expr).end


def _indent(source: Source, offset: int) -> str | None:
    """The blanks before an offset, if nothing else is on its line before it."""
    start = source.line_starts[source.location(offset).row - 1]
    before = source.text[start:offset]
    return before if not before.strip() else None


def _rows_in_strings(statement: ast.stmt) -> set[int]:
    return {row for node in ast.walk(statement) for row in _continued(node)}


def _continued(node: ast.AST) -> Iterator[int]:
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        yield from range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)


def only_asks(condition: ast.If) -> bool:
    """Whether a condition only looks at variables, at items of them by a constant, and at their lengths."""
    plain = ast.Name | ast.Attribute | ast.Constant | ast.Compare | ast.BoolOp | ast.UnaryOp
    parts = ast.cmpop | ast.boolop | ast.unaryop | ast.expr_context
    for node in ast.walk(condition.test):
        match node:
            case ast.Subscript(slice=ast.Constant()) | ast.Call(func=ast.Name(id="len"), keywords=[]):
                pass
            case _:
                if not isinstance(node, plain | parts):
                    return False
    return True
