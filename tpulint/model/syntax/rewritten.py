"""What planned rewrites take out of a file's text."""

from __future__ import annotations

import ast

from tpulint.finding import Span
from tpulint.plan import Kind, Rewrite, node_at
from tpulint.source import Source


def text_lost(source: Source, rewrite: Rewrite) -> str:
    """The text that a rewrite takes away, or puts other code in place of."""
    node = node_at(source.tree, rewrite.path)
    match rewrite.kind:
        case Kind.REPLACE if isinstance(node, ast.expr | ast.stmt | ast.keyword):
            return _text(source, source.span(node))
        case Kind.REMOVE_ARGUMENT if isinstance(node, ast.expr | ast.keyword):
            return _with_comments(source, source.span(node))
        case Kind.DELETE if isinstance(node, ast.stmt) and source.shares_row(node):
            return _text(source, source.span(node))
        case Kind.DELETE if isinstance(node, ast.stmt):
            span = source.span(node)
            row = source.location(span.end).row
            return _text(source, Span(span.start, source.line_starts[row - 1] + len(source.line(row))))
        case Kind.REDUCE if isinstance(node, ast.expr):
            part = node_at(source.tree, rewrite.parts[0])
            assert isinstance(part, ast.expr)
            span, kept = source.span(node), source.span(part)
            return _text(source, Span(span.start, kept.start)) + _text(source, Span(kept.end, span.end))
        case Kind.UNWRAP:
            statement = node_at(source.tree, rewrite.path[:-1])
            assert isinstance(statement, ast.With)
            if len(statement.items) > 1:
                assert isinstance(node, ast.withitem)
                return _with_comments(source, source.span(node.context_expr))
            return _text(source, Span(source.span(statement).start, source.span(statement.body[0]).start))
        case Kind.REPLACE_RUN if isinstance(node, ast.stmt):
            *outer, (name, first) = rewrite.path
            block = getattr(node_at(source.tree, tuple(outer)), name)
            last = block[first + int(rewrite.code[1]) - 1]
            return _text(source, Span(source.span(node).start, source.span(last).end))
    return ""


def _with_comments(source: Source, span: Span) -> str:
    """The text of an argument, or of an item of a `with`, with the comments above it and at its line end."""
    first, last = source.location(span.start).row, source.location(span.end).row
    while first > 1 and source.line(first - 1).lstrip().startswith("#"):
        first -= 1
    is_first = not source.text[source.line_starts[source.location(span.start).row - 1] : span.start].strip()
    start = source.line_starts[first - 1] if is_first else span.start
    end = source.line_starts[last - 1] + len(source.line(last))
    is_commented = source.text[span.end : end].lstrip(" \t,").startswith("#")
    return _text(source, Span(start, end if is_commented else span.end))


def _text(source: Source, span: Span) -> str:
    return source.text[span.start : span.end]
