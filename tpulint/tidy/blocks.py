"""Blocks in which fixes left nothing but `pass`."""

from __future__ import annotations

import ast

from tpulint.tidy.purity import has_no_effect
from tpulint.tidy.text import Text, new_rows, nodes


def without_empty_blocks(before: str, after: str) -> str:
    """`after` without the blocks of conditions that hold nothing but a `pass` that `before` lacks.

    The condition goes as a whole where nothing else depends on it, and what it asks has no effect. In
    functions, classes, loops and exception handlers, the `pass` stays: others may need that they are there.
    """
    for _ in range(after.count("pass")):
        text = Text(after)
        rows = new_rows(before, after)
        shorter = next((made for node in nodes(text.text) if (made := _without(text, node, rows))), None)
        if shorter is None:
            break
        after = shorter
    return after


def _without(text: Text, node: ast.AST, rows: set[int]) -> str | None:
    """The text without an empty block of a condition; None if it has none."""
    if not isinstance(node, ast.If):
        return None
    if _is_empty(text, node.orelse, rows):
        return _without_else(text, node)
    if not _is_empty(text, node.body, rows):
        return None
    if not node.orelse:
        return _without_condition(text, node)
    return _turned(text, node)


def _is_empty(text: Text, block: list[ast.stmt], rows: set[int]) -> bool:
    if len(block) != 1 or not isinstance(block[0], ast.Pass) or block[0].lineno not in rows:
        return False
    return text.stands_alone(block[0])


def _without_else(text: Text, node: ast.If) -> str | None:
    """The text without an `else:` and its `pass`; comments between the two keep both."""
    only = node.orelse[0]
    above = only.lineno - 1
    if text.lines[above - 1].strip() != "else:":
        return None
    return text.without_rows((above, only.lineno))


def _without_condition(text: Text, node: ast.If) -> str | None:
    """The text without a condition that only asks, and its `pass`."""
    only = node.body[0]
    is_elif = text.of(node).startswith("elif")
    alone = not text.text[text.row_start(node.lineno) : text.start(node)].strip()
    rows = range(node.lineno, only.lineno + 1)
    has_comment = any("#" in text.lines[row - 1] for row in rows)
    if not has_no_effect(node.test) or not alone or has_comment:
        return None
    made = text.without_rows(rows)
    return made if is_elif or _parses(made) else None


def _turned(text: Text, node: ast.If) -> str | None:
    """The text with `if not c:` and the block behind `else:` for `if c: pass` and an `else:`."""
    only, first = node.body[0], node.orelse[0]
    is_plain = node.lineno == node.test.end_lineno and only.lineno == node.lineno + 1
    between = range(only.lineno + 1, first.lineno)
    others = [row for row in between if text.lines[row - 1].strip()]
    if not is_plain or len(others) != 1 or text.lines[others[0] - 1].strip() != "else:":
        return None
    if not text.of(node).startswith("if"):
        return None
    lines = list(text.lines)
    start = text.start(node.test) - text.row_start(node.lineno)
    end = text.end(node.test) - text.row_start(node.lineno)
    line = lines[node.lineno - 1]
    lines[node.lineno - 1] = line[:start] + _negated(text, node.test) + line[end:]
    del lines[only.lineno - 1 : others[0]]
    return "".join(lines)


def _negated(text: Text, test: ast.expr) -> str:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return text.of(inner)
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            return f"{text.of(left)} != {text.of(right)}"
        case ast.Compare(left=left, ops=[ast.NotEq()], comparators=[right]):
            return f"{text.of(left)} == {text.of(right)}"
        case ast.Name() | ast.Attribute() | ast.Call() | ast.Subscript():
            return f"not {text.of(test)}"
    return f"not ({text.of(test)})"


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
