"""Conditional expressions that fixes made the same on both sides."""

from __future__ import annotations

import ast
from collections import Counter

from tpulint.tidy.purity import has_no_effect
from tpulint.tidy.text import Text, nodes


def without_equal_choices(before: str, after: str) -> str:
    """`after` with `a` for each `a if c else a` that `before` lacks, where `c` only looks at something."""
    if " if " not in after:
        return after
    written = Counter(ast.dump(node) for node in nodes(before) if isinstance(node, ast.IfExp))
    while True:
        text = Text(after)
        node = next((one for one in _equal(after) if not written[ast.dump(one)]), None)
        if node is None:
            return after
        start, end = text.start(node), text.end(node)
        chosen = text.of(node.body)
        if _is_tight(node.body) and after[:start].endswith("(") and after[end:].startswith(")"):
            before_it = after[: start - 1]
            # A name before it would be that of a call, whose parentheses stay.
            if before_it.rstrip(" ").endswith(("=", "(", "[", ",", ":")) or before_it.endswith("return "):
                start, end = start - 1, end + 1
        elif not _is_tight(node.body) and not _is_wrapped(after, start, end):
            chosen = f"({chosen})"
        after = after[:start] + chosen + after[end:]


def _equal(text: str) -> list[ast.IfExp]:
    return [
        node
        for node in nodes(text)
        if isinstance(node, ast.IfExp)
        and ast.dump(node.body) == ast.dump(node.orelse)
        and has_no_effect(node.test)
    ]


def _is_tight(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant)


def _is_wrapped(text: str, start: int, end: int) -> bool:
    return text[:start].endswith("(") and text[end:].startswith(")")
