"""Names that are bound for certain where an expression is evaluated."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.model.values.kinds import Kind
from tpulint.model.values.typed_file import TypedFile


def names_at_hand(module: TypedFile, node: ast.expr, scope: Scope) -> Iterator[tuple[str, Kind]]:
    """Names that can be read at a place without `UnboundLocalError`, nearest first, with their kinds.

    Those are the names that its statement reads, those assigned by the statements before it in the
    blocks around it, and the parameters that are never assigned.
    """
    function = scope.function
    flow = module.flow(function) if function is not None else None
    if function is None or flow is None:
        return
    seen: set[str] = set()
    for statement in _around(module, node, scope):
        if not seen:
            seen = _stored(statement)
            for name in ast.walk(statement):
                if isinstance(name, ast.Name) and id(name) in flow.kinds and name.id not in seen:
                    yield name.id, flow.kinds[id(name)]
        for before in reversed(module.before(statement)):
            if isinstance(before, ast.Assign | ast.AnnAssign | ast.AugAssign):
                for name in ast.walk(before):
                    if not isinstance(name, ast.Name) or not isinstance(name.ctx, ast.Store):
                        continue
                    if name.id not in seen and id(name) in flow.kinds:
                        yield name.id, flow.kinds[id(name)]
            seen |= _stored(before)
    for parameter, kind in flow.initial.items():
        if len(function.bindings.get(parameter, ())) == 1:
            yield parameter, kind


def _around(module: ParsedFile, node: ast.expr, scope: Scope) -> Iterator[ast.stmt]:
    """The statements around a node within its function, innermost first."""
    function = scope.function
    for outer in module.ancestors(node):
        if function is None or outer is function.node:
            return
        if isinstance(outer, ast.stmt):
            yield outer


def _stored(statement: ast.stmt) -> set[str]:
    """The names that a statement binds, itself or in its blocks."""
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
