"""Names that are bound for certain, and those that may not be."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from tpulint.model.names.scopes import FunctionNode, Scope, parameters
from tpulint.model.training.effects import effects

#: What may leave out some of its parts.
_PARTLY = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def surely_written(block: Sequence[ast.stmt]) -> set[str]:
    """The places that a block writes on every way through it."""
    return {name for statement in block for name in _surely(statement)}


def _surely(statement: ast.stmt) -> set[str]:
    match statement:
        case ast.If():
            ways = [way for way in (statement.body, statement.orelse) if not _leaves(way)]
            return set.intersection(*map(surely_written, ways)) if ways else set()
        case ast.With():
            items = [item.optional_vars for item in statement.items if item.optional_vars is not None]
            return set(effects(items).writes) | surely_written(statement.body)
        case ast.For() | ast.While() | ast.Try() | ast.Match():
            return set()
    return set(effects([statement]).writes)


def _leaves(block: Sequence[ast.stmt]) -> bool:
    return bool(block) and isinstance(block[-1], _LEAVES)


def surely_read(block: Sequence[ast.stmt]) -> set[str]:
    """The names that the plain statements of a block read, whatever comes of their parts.

    What statements before them may have bound, such as loops, need not be bound at the start of the block.
    """
    names, written = set[str](), set[str]()
    for statement in block:
        if isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr):
            names |= _read(statement) - written
        written |= set(effects([statement]).writes)
    return names


def _read(statement: ast.stmt) -> set[str]:
    names: set[str] = set()
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.add(node.id)
        if not isinstance(node, _PARTLY):
            waiting += ast.iter_child_nodes(node)
    return names


def binders(names: Collection[str], before: ast.stmt, scope: Scope) -> Iterator[tuple[str, ast.stmt]]:
    """Names that may not be bound at a statement, with the first statement of the function to bind them."""
    function = scope.function
    node = function.node if function is not None else _module(scope)
    body = node.body if isinstance(node, FunctionNode | ast.Module) else None
    if not isinstance(body, list):
        return
    known = {a.arg for a in parameters(node)} if isinstance(node, FunctionNode) else set()
    known |= {n for one in ast.walk(node) if isinstance(one, ast.Global | ast.Nonlocal) for n in one.names}
    known |= _known_at(body, before)
    for name in names:
        binding = _first_binding(name, body, before)
        if name not in known and name.isidentifier() and binding is not None:
            yield name, binding


def _first_binding(name: str, block: Sequence[ast.stmt], before: ast.stmt) -> ast.stmt | None:
    """The first statement to bind a name, within the conditions in which the other statement stands, too."""
    binding = next((statement for statement in block if name in effects([statement]).writes), None)
    if isinstance(binding, ast.If | ast.With):
        for inner in (binding.body, getattr(binding, "orelse", [])):
            if any(before is node for statement in inner for node in ast.walk(statement)):
                return _first_binding(name, inner, before)
    return binding


def _module(scope: Scope) -> ast.AST:
    while scope.parent is not None:
        scope = scope.parent
    return scope.node


def _known_at(block: Sequence[ast.stmt], before: ast.stmt) -> set[str]:
    """What is bound for certain where a statement starts, which is in the block, however deep."""
    known: set[str] = set()
    for statement in block:
        if statement is before:
            return known
        if statement.lineno <= before.lineno <= (statement.end_lineno or statement.lineno):
            return known | _entering(statement, before)
        known |= _surely(statement)
    return known


def _entering(statement: ast.stmt, before: ast.stmt) -> set[str]:
    known: set[str] = set()
    if isinstance(statement, ast.For):
        known |= set(effects([statement.target]).writes)
    if isinstance(statement, ast.With):
        items = [item.optional_vars for item in statement.items if item.optional_vars is not None]
        known |= set(effects(items).writes)
    for value in vars(statement).values():
        parts = value if isinstance(value, list) else []
        if any(before is inner for part in parts for inner in ast.walk(part)):
            inner = [part for part in parts if isinstance(part, ast.stmt)]
            known |= _known_at(inner, before)
            for handler in (part for part in parts if isinstance(part, ast.ExceptHandler)):
                known |= {handler.name} if handler.name else set()
    return known
