"""Which node stands around a node, found out for one statement at a time."""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from typing import Any

from tpulint.source import first_row, require_ast

#: What a node holds besides other nodes, and nodes that only say how it is meant.
_ATOMS = frozenset({str, int, float, complex, bool, bytes, type(None), type(...)}).union(
    *(kind.__subclasses__() for kind in (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop))
)
_BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")
_WITH_BLOCKS: frozenset[object] = frozenset(
    {
        *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.For, ast.AsyncFor, ast.While),
        *(ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.ExceptHandler, ast.Match, ast.match_case),
    }
)


class Parents:
    """The parents in one tree.

    Statements are known from the start; what stands within one is looked at when it is first asked for.
    """

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._found: dict[int, ast.AST] = {}
        self._is_whole = False
        self._statements = sorted(self._blocks(), key=lambda item: item[0])
        self._rows = [row for row, _ in self._statements]
        self._seen: set[int] = set()

    def of(self, node: ast.AST) -> ast.AST | None:
        """The node around a node; None for the tree itself.

        Raises:
            TypeError: for a node of LibCST, and what else is no node of `ast`.
        """
        found = self._found.get(id(node))
        if found is None and not self._is_whole and node is not self._tree:
            require_ast(node)
            self._look_near(node)
            found = self._found.get(id(node))
            if found is None:  # its row is not that of its statement, as in some f-strings
                self._is_whole = True
                self._look_into(self._tree)
                found = self._found.get(id(node))
        return found

    def _blocks(self) -> list[tuple[int, ast.AST]]:
        """All statements and handlers with their first rows; their parents are noted on the way."""
        listed: list[tuple[int, ast.AST]] = []
        waiting: list[ast.AST] = [self._tree]
        while waiting:
            outer = waiting.pop()
            for name in _BLOCKS:
                block: list[Any] = outer.__dict__.get(name, [])
                for inner in block:
                    self._found[id(inner)] = outer
                    if inner.__class__ is not ast.match_case:
                        listed.append((first_row(inner), inner))
                    if inner.__class__ in _WITH_BLOCKS:
                        waiting.append(inner)
        return listed

    def _look_near(self, node: ast.AST) -> None:
        """Look into the last statements that begin no later than a node."""
        last = bisect_right(self._rows, getattr(node, "lineno", 0)) - 1
        if last >= 0:
            for number in range(bisect_left(self._rows, self._rows[last]), last + 1):
                statement = self._statements[number][1]
                if id(statement) not in self._seen:
                    self._seen.add(id(statement))
                    self._look_into(statement)

    def _look_into(self, top: ast.AST) -> None:
        """Note the parents of all nodes within one, those within its statements only if all are wanted."""
        found, is_whole = self._found, self._is_whole
        waiting = [top]
        while waiting:
            outer = waiting.pop()
            for value in outer.__dict__.values():
                kind = value.__class__
                if kind in _ATOMS:
                    continue
                for child in value if kind is list else (value,):
                    if child.__class__ not in _ATOMS and (is_whole or id(child) not in found):
                        found[id(child)] = outer
                        waiting.append(child)
