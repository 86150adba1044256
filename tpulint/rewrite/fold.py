"""Functions and classes that no rewrite is about, folded away while a file is rewritten.

LibCST takes about a hundred microseconds for each line that it parses and writes, and most lines of most
files stay as they are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from tpulint.plan import NodePath
from tpulint.source import Source, first_row

#: Shorter functions and classes are not worth folding.
_LEAST_ROWS = 4
_BLOCKS = ("body", "orelse", "finalbody", "handlers")


class Folded:
    """The text of a file, with one line in the place of each function or class that rewrites leave alone.

    Statements have the same places in their blocks as in the file.

    Args:
        source: the file.
        paths: the nodes that rewrites are about. What is within these stays, and so does what is around them.
    """

    def __init__(self, source: Source, paths: Iterable[NodePath]) -> None:
        self._name = "folded"
        while self._name in source.text:
            self._name += "_"
        self._texts: list[str] = []
        parts, end = [], 0
        for node in _unneeded(source.tree, _tree_of(paths)):
            start, stop = _start(source, node), source.span(node).end
            parts += [source.text[end:start], self._line(node)]
            self._texts.append(source.text[start:stop])
            end = stop
        self.text = "".join([*parts, source.text[end:]])
        self._lines = re.compile(rf"(?:def|class) {self._name}(\d+)(?:\(\))?: \.\.\.")

    def unfolded(self, code: str) -> str:
        """Code with the functions and classes in their places again."""
        return self._lines.sub(lambda found: self._texts[int(found[1])], code) if self._texts else code

    def _line(self, node: ast.stmt) -> str:
        number = len(self._texts)
        if isinstance(node, ast.ClassDef):
            return f"class {self._name}{number}: ..."
        return f"def {self._name}{number}(): ..."


#: The paths of nodes as a tree of steps; None for a node itself, with all that it holds.
_Tree = dict[tuple[str, int], "_Tree | None"]


def _tree_of(paths: Iterable[NodePath]) -> _Tree:
    tree: _Tree = {}
    for path in paths:
        here: _Tree | None = tree
        for number, step in enumerate(path):
            if here is None or (step in here and here[step] is None):
                break
            if number == len(path) - 1:
                here[step] = None
            else:
                here = here.setdefault(step, {})
    return tree


def _unneeded(node: ast.AST, needed: _Tree) -> Iterator[ast.stmt]:
    """The functions and classes below a node of which nothing is needed, in the order of the text."""
    for name in _BLOCKS:
        block = getattr(node, name, None)
        if not isinstance(block, list):
            continue
        for index, child in enumerate(block):
            inner = needed.get((name, index), {})
            if inner is None:
                continue
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not inner:
                if (child.end_lineno or 0) - first_row(child) >= _LEAST_ROWS:
                    yield child
            elif isinstance(child, ast.stmt | ast.ExceptHandler):
                yield from _unneeded(child, inner)


def _start(source: Source, node: ast.stmt) -> int:
    """Where a statement begins: at the `@` of its first decorator."""
    row = first_row(node)
    line = source.line(row)
    return source.line_starts[row - 1] + len(line) - len(line.lstrip())
