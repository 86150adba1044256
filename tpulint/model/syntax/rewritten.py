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
        case Kind.REPLACE | Kind.REMOVE_ARGUMENT if isinstance(node, ast.expr | ast.stmt | ast.keyword):
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
                return _text(source, source.span(node.context_expr))
            return _text(source, Span(source.span(statement).start, source.span(statement.body[0]).start))
        case Kind.REPLACE_RUN if isinstance(node, ast.stmt):
            *outer, (name, first) = rewrite.path
            block = getattr(node_at(source.tree, tuple(outer)), name)
            last = block[first + int(rewrite.code[1]) - 1]
            return _text(source, Span(source.span(node).start, source.span(last).end))
    return ""


def _text(source: Source, span: Span) -> str:
    return source.text[span.start : span.end]
