"""Variables of functions that lost their last use by fixes."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from tpulint.tidy.purity import has_no_effect
from tpulint.tidy.text import Text, nodes

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def without_unused(before: str, after: str) -> str:
    """`after` without the variables of functions that `before` reads and `after` only assigns.

    What gives them their value must have no effect, and stand alone on its lines.
    """
    read = _reads(before)
    while True:
        text = Text(after)
        found = next(_unused(text, read), None)
        if found is None:
            return after
        after = text.without_rows(range(found.lineno, (found.end_lineno or found.lineno) + 1))


def _unused(text: Text, read: Counter[tuple[str, str]]) -> Iterator[ast.stmt]:
    for function in nodes(text.text):
        if not isinstance(function, _Function):
            continue
        inside = list(ast.walk(function))
        names = {node.id for node in inside if isinstance(node, ast.Name) and not _is_store(node)}
        names |= {n for node in inside if isinstance(node, ast.Global | ast.Nonlocal) for n in node.names}
        if any(isinstance(node, ast.Name) and node.id in ("locals", "eval", "exec") for node in inside):
            continue
        for block in _blocks(function):
            for statement in block:
                assigned = _assigned(statement)
                if not assigned or len(block) == 1 or not assigned.isdisjoint(names):
                    continue
                if all(read[function.name, name] for name in assigned) and text.stands_alone(statement):
                    yield statement


def _blocks(function: _Function) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(function):
        for value in vars(node).values():
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield value


def _assigned(statement: ast.stmt) -> set[str] | None:
    """The names that a statement assigns, if it does nothing else."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if has_no_effect(value):
            return {name}
        case ast.If(test=test, body=body, orelse=orelse) if has_no_effect(test):
            names = [_assigned(one) for one in (*body, *orelse)]
            return {one for some in names for one in some or ()} if None not in names else None
    return None


def _is_store(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _reads(text: str) -> Counter[tuple[str, str]]:
    """How often functions, by their names, read names."""
    return Counter(
        (function.name, node.id)
        for function in nodes(text)
        if isinstance(function, _Function)
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and not _is_store(node)
    )
