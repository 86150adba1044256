"""Statements that no rewrite is about, folded away while a file is rewritten.

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
#: The fields with statements, in the order of the text.
_BLOCKS = ("body", "handlers", "orelse", "finalbody")


class Folded:
    """The text of a file, with one line in the place of each function or class that rewrites leave alone.

    So has each statement of a function, and each one nested too deep for LibCST, if rewrites leave it
    alone. Statements have the same places in their blocks as in the file.

    Args:
        source: the file.
        paths: the nodes that rewrites are about. What is within these stays, and so does what is around them.
        headers: statements that stay, without what is within them.
    """

    def __init__(self, source: Source, paths: Iterable[NodePath], headers: Iterable[NodePath] = ()) -> None:
        self._name = "folded"
        while self._name in source.text:
            self._name += "_"
        self._texts: list[str] = []
        self._feeds: re.Pattern[str] | None = None
        parts, end = [], 0
        is_deep = is_too_deep(source.tree)
        for node in _Unneeded(source, is_deep=is_deep).below(source.tree, _tree_of(paths, headers)):
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


def _tree_of(paths: Iterable[NodePath], headers: Iterable[NodePath]) -> _Tree:
    tree: _Tree = {}
    for path in paths:
        here = _reached(tree, path[:-1])
        if here is not None:
            here[path[-1]] = None
    for path in headers:
        _reached(tree, path)
    return tree


def _reached(tree: _Tree, path: NodePath) -> _Tree | None:
    """What a tree has at a path, which is added to it; None within a node of which all is needed."""
    here: _Tree | None = tree
    for step in path:
        if here is None:
            return None
        here = here.setdefault(step, {})
    return here


class _Unneeded:
    """What is folded away.

    Args:
        source: the file.
        is_deep: whether there is code that is nested too deep; all statements with such code are folded.
    """

    def __init__(self, source: Source, *, is_deep: bool) -> None:
        self._source = source
        self._is_deep = is_deep

    def below(self, node: ast.AST, needed: _Tree, *, is_in_function: bool = False) -> Iterator[ast.stmt]:
        """The statements below a node to fold, in the order of the text."""
        for name in _BLOCKS:
            block = getattr(node, name, None)
            if not isinstance(block, list):
                continue
            for index, child in enumerate(block):
                step = (name, index)
                inner = needed.get(step, {})
                is_folded = step not in needed and isinstance(child, ast.stmt)
                if is_folded and self._folds(child, is_in_function):
                    yield child
                elif inner is not None and isinstance(child, ast.stmt | ast.ExceptHandler):
                    is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                    is_class = isinstance(child, ast.ClassDef)
                    within = (is_in_function or is_function) and not is_class
                    yield from self.below(child, inner, is_in_function=within)

    def _folds(self, node: ast.stmt, is_in_function: bool) -> bool:
        if self._is_deep and is_too_deep(node):
            return True
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return (node.end_lineno or 0) - first_row(node) >= _LEAST_ROWS and not self._has_footer(node)
        # Names that imports bind, and whether a string comes first, matter to what is put beside them.
        is_string = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_in_function or is_string or isinstance(node, ast.Import | ast.ImportFrom):
            return False
        return self._has_its_lines(node) and not (hasattr(node, "body") and self._has_footer(node))

    def _has_its_lines(self, node: ast.stmt) -> bool:
        """Whether nothing but a comment is on the lines of a statement, which is no `elif`."""
        source, span = self._source, self._source.span(node)
        ahead = source.text[source.line_starts[node.lineno - 1] : span.start]
        end = node.end_lineno or 0
        after = source.text[span.end : source.line_starts[end - 1] + len(source.line(end))].strip()
        is_elif = isinstance(node, ast.If) and source.text.startswith("elif", span.start)
        return not ahead.strip() and not is_elif and (not after or after.startswith("#"))

    def _has_footer(self, node: ast.stmt) -> bool:
        """Whether comments within the last block of a compound statement follow its statements."""
        rows = range((node.end_lineno or 0) + 1, len(self._source.line_starts) + 1)
        for line in map(self._source.line, rows):
            code = line.lstrip()
            if code:
                return code.startswith("#") and len(line) - len(code) > node.col_offset
        return False


def _start(source: Source, node: ast.stmt) -> int:
    """Where a statement begins: at the `@` of its first decorator."""
    row = first_row(node)
    line = source.line(row)
    return source.line_starts[row - 1] + len(line) - len(line.lstrip())
