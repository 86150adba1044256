"""What loops go over."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TypeGuard


def calls_looped_over(name: ast.Name, around: Iterable[ast.AST], methods: frozenset[str]) -> list[ast.Call]:
    """The calls over which a loop such as `for p in model.parameters()` goes, if it assigns the name.

    Only calls of `methods` count. `around` are the nodes around the name, innermost first.
    """
    for outer in around:
        for target, iterated in _loops(outer):
            if any(isinstance(node, ast.Name) and node.id == name.id for node in ast.walk(target)):
                return [node for node in ast.walk(iterated) if _is_call(node, methods)]
    return []


def _loops(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.For):
        return [(node.target, node.iter)]
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return [(generator.target, generator.iter) for generator in node.generators]
    return []


def _is_call(node: ast.AST, methods: frozenset[str]) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods
