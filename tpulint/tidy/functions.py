"""Names to which fixes assign a `lambda`."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tpulint.tidy.text import Text, indent_of, new_rows, nodes, parted

#: Blank lines around a definition at the top level.
_GAP = 2


def defined(before: str, after: str) -> str:
    """`after` with a `def` for each assignment of a `lambda` to a name that `before` lacks."""
    if "= lambda" not in after:
        return after
    text, rows = Text(after), new_rows(before, after)
    known = _named_lambdas(before)
    lines = list(text.lines)
    top = {id(node) for node in text.tree.body}
    for node in nodes(text.text):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda() as function):
                row = node.lineno
                if name in known or row not in rows or row != node.end_lineno or not text.stands_alone(node):
                    continue
                bare, ending = parted(lines[row - 1])
                indent, newline = indent_of(bare), ending or "\n"
                step = "\t" if indent.startswith("\t") else "    "
                taken = ast.unparse(function.args)
                made = [f"{indent}def {name}({taken}):", f"{indent}{step}return {text.of(function.body)}"]
                above = below = 0
                if id(node) in top:
                    above = _GAP - _blank(reversed(lines[: row - 1]))
                    below = _GAP - _blank(lines[row:])
                lines[row - 1] = newline.join([*[""] * above, *made, *[""] * below, ""])
    return "".join(lines)


def _named_lambdas(text: str) -> set[str]:
    return {
        target.id
        for node in nodes(text)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _blank(lines: Iterable[str]) -> int:
    """How many blank lines there are first, at most as many as around a definition; so many at an end."""
    for count, line in enumerate(lines):
        if line.strip() or count == _GAP:
            return count
    return _GAP
