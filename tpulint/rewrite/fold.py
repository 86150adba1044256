"""Functions, classes and deep code that no rewrite is about, folded away while a file is rewritten.

LibCST takes about a hundred microseconds for each line that it parses and writes, and most lines of most
files stay as they are.
"""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Iterable, Iterator

from tpulint.plan import NodePath
from tpulint.rewrite.depth import is_too_deep
from tpulint.source import Source, first_row

#: Shorter functions and classes are not worth folding.
_LEAST_ROWS = 4
_BLOCKS = ("body", "orelse", "finalbody", "handlers")


class Folded:
    """The text of a file, with one line in the place of each function or class that rewrites leave alone.

    So has each statement that is nested too deep for LibCST, if rewrites leave it alone.

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
        self._feeds: re.Pattern[str] | None = None
        parts, end = [], 0
        is_deep = is_too_deep(source.tree)
        for node in _unneeded(source.tree, _tree_of(paths), is_deep=is_deep):
            start, stop = _start(source, node), source.span(node).end
            parts += [source.text[end:start], self._line(node)]
            self._texts.append(source.text[start:stop])
            end = stop
        self.text = self._without_form_feeds(source, "".join([*parts, source.text[end:]]))
        #: Whether code that rewrites are about is nested too deep.
        self.is_too_deep = is_deep and is_too_deep(ast.parse(self.text))
        self._lines = re.compile(rf"(?:(?:def|class) )?{self._name}(\d+)(?:(?:\(\))?: \.\.\.)?")

    def _without_form_feeds(self, source: Source, text: str) -> str:
        """A text with comments in the place of form feeds ahead of statements, which LibCST leaves out."""
        if "\f" not in text or not any(
            isinstance(node, ast.stmt) and source.line(first_row(node)).startswith("\f")
            for node in ast.walk(source.tree)
        ):
            return text
        tree, lines = ast.parse(text), list(io.StringIO(text, newline=""))
        for node in ast.walk(tree):
            row = first_row(node) if isinstance(node, ast.stmt) else 0
            if row and lines[row - 1].startswith("\f"):
                code = lines[row - 1].lstrip("\f")
                margin = code[: len(code) - len(code.lstrip())]
                lines[row - 1] = f"{margin}# {self._name}{source.newline}{code}"
        self._feeds = re.compile(rf"[ \t]*# {self._name}\r?\n")
        return "".join(lines)

    def unfolded(self, code: str) -> str:
        """Code with what was folded in its place again."""
        if self._feeds is not None:
            code = self._feeds.sub("\f", code)
        return self._lines.sub(lambda found: self._texts[int(found[1])], code) if self._texts else code

    def _line(self, node: ast.stmt) -> str:
        number = len(self._texts)
        if isinstance(node, ast.ClassDef):
            return f"class {self._name}{number}: ..."
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        return f"def {self._name}{number}(): ..." if is_function else f"{self._name}{number}"


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


def _unneeded(node: ast.AST, needed: _Tree, *, is_deep: bool) -> Iterator[ast.stmt]:
    """The functions and classes below a node of which nothing is needed, in the order of the text.

    So are, in a file with code that is nested too deep (`is_deep`), all statements with such code.
    """
    for name in _BLOCKS:
        block = getattr(node, name, None)
        if not isinstance(block, list):
            continue
        for index, child in enumerate(block):
            inner = needed.get((name, index), {})
            if inner is None:
                continue
            is_definition = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            is_long = is_definition and (child.end_lineno or 0) - first_row(child) >= _LEAST_ROWS
            if not inner and (is_long or (is_deep and isinstance(child, ast.stmt) and is_too_deep(child))):
                yield child
            elif isinstance(child, ast.stmt | ast.ExceptHandler) and not (is_definition and not inner):
                yield from _unneeded(child, inner, is_deep=is_deep)


def _start(source: Source, node: ast.stmt) -> int:
    """Where a statement begins: at the `@` of its first decorator."""
    row = first_row(node)
    line = source.line(row)
    return source.line_starts[row - 1] + len(line) - len(line.lstrip())
