"""A file, or what matters of it, as a LibCST tree whose nodes are found by path, and back."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import libcst as cst

from tpulint.plan import ONLY, NodePath
from tpulint.rewrite.depth import MAX_DEPTH
from tpulint.rewrite.fold import Folded
from tpulint.rewrite.locate import NotLocatedError, below, locate
from tpulint.source import Source


class RefusedError(ValueError):
    """A file that LibCST does not parse, or does not write as it is."""


class Tree:
    """A file as a LibCST tree.

    Args:
        source: the file.
        paths: the nodes in question; functions and classes that have none are no part of the tree, nor are
            statements of functions.
        headers: statements that are part of it, without what is within them.

    Raises:
        RefusedError: when LibCST cannot parse the file.
    """

    def __init__(self, source: Source, paths: Iterable[NodePath], headers: Iterable[NodePath] = ()) -> None:
        self.source = source
        folded = Folded(source, paths, headers)
        if folded.is_too_deep:
            raise RefusedError(f"the code to change is nested more than {MAX_DEPTH} levels deep")
        #: Gives code of the tree what was folded away.
        self.unfolded = folded.unfolded
        try:
            self.module = cst.parse_module(folded.text)
        except (cst.ParserSyntaxError, RecursionError) as error:
            raise RefusedError(f"LibCST does not parse it: {error}") from error
        if folded.text.endswith("\r"):  # LibCST does not see that the last line ends
            self.module = self.module.with_changes(has_trailing_newline=True)
        self._known: dict[int, ast.AST] = {}
        self._walked: set[int] = set()
        self._tops: list[tuple[cst.CSTNode, ast.AST]] = []

    def at(self, path: NodePath) -> cst.CSTNode | None:
        """The node at a path; None if it is not found."""
        try:
            chain, node = locate(self.module, self.source.tree, path)
        except NotLocatedError:
            return None
        self._known[id(chain[-1])] = node
        self._tops.append((chain[-1], node))
        return chain[-1]

    def node(self, given: cst.CSTNode) -> ast.AST:
        """The node of `ast` for a node that was found, or that is part of one.

        Raises:
            LookupError: for a node without one of its own, such as a comma.
        """
        if id(given) not in self._known:
            for top, node in self._tops:
                if id(top) not in self._walked:
                    self._walked.add(id(top))
                    self._walk(top, node)
        try:
            return self._known[id(given)]
        except KeyError:
            raise LookupError(f"no expression or statement of this file: {type(given).__name__}") from None

    def code(self, given: cst.CSTNode) -> str:
        """The source of a node, also of one that is not from this tree."""
        return self.unfolded(self.module.code_for_node(given))

    def _walk(self, top: cst.CSTNode, of: ast.AST) -> None:
        waiting = [(top, of)]
        while waiting:
            outer, node = waiting.pop()
            for name, value in ast.iter_fields(node):
                parts = enumerate(value) if isinstance(value, list) else [(ONLY, value)]
                for index, part in parts:
                    if not isinstance(part, ast.AST) or isinstance(part, ast.expr_context):
                        continue
                    try:
                        chain = below(outer, node, name, index)
                    except NotLocatedError:
                        continue
                    for one in chain[:-1]:
                        if not isinstance(one, cst.BaseExpression):  # an argument, but not `a and b` of more
                            self._known.setdefault(id(one), part)
                    if chain:
                        self._known[id(chain[-1])] = part
                    waiting.append((chain[-1] if chain else outer, part))
