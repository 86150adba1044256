"""Names that are bound for certain, and those that may not be."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from tpulint.model.names.scopes import FunctionNode, Scope, ScopeKind, parameters
from tpulint.model.syntax.effects import effects
from tpulint.model.syntax.entry import is_main

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


def binders(
    names: Collection[str], before: ast.stmt, scope: Scope, answers: dict[object, Any]
) -> Iterator[tuple[str, ast.stmt]]:
    """Names that may not be bound at a statement, with the first statement to bind them.

    That is one of the function around it, or of the functions and the file around that.
    What these bind on a condition is found once for each, and kept in `answers`.
    """
    yield from _own_binders(names, before, scope, answers)
    own, outer = _function_and_those_around(scope)
    left = set(names) - set(own.bindings)
    for around in outer:
        key = ("bound on a condition", id(around))
        if left and key not in answers:
            answers[key] = _bound_on_condition(around)
        for name in sorted(left & answers.get(key, set())):
            binding = _first_binding(name, _body(around.node), before)
            if binding is not None:
                yield name, binding
        left -= set(around.bindings)


def _bound_on_condition(scope: Scope) -> set[str]:
    """The names of a function or a file that need not be bound once it has run."""
    node = scope.node
    known = {name for statement in _unguarded(_body(node)) for name in _surely(statement)}
    known |= {a.arg for a in parameters(node)} if isinstance(node, FunctionNode) else set()
    return set(scope.bindings) - known


def _body(node: ast.AST) -> list[ast.stmt]:
    body = getattr(node, "body", None)
    return body if isinstance(body, list) else []  # that of a lambda is an expression


def _function_and_those_around(scope: Scope) -> tuple[Scope, list[Scope]]:
    """The scope of the function around a place, or of the file, and those of what is around that."""
    around = [scope]
    while around[-1].parent is not None:
        around.append(around[-1].parent)
    own, *outer = (one for one in around if one.kind in (ScopeKind.FUNCTION, ScopeKind.MODULE))
    return own, outer


def _unguarded(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a file, with those that run where it is the program itself."""
    for statement in body:
        if isinstance(statement, ast.If) and is_main(statement.test):
            yield from statement.body
        else:
            yield statement


def declared(node: ast.AST) -> frozenset[str]:
    """The names that are declared `global` or `nonlocal` within a function or a file."""
    found = (one for one in ast.walk(node) if isinstance(one, ast.Global | ast.Nonlocal))
    return frozenset(name for one in found for name in one.names)


def _own_binders(
    names: Collection[str], before: ast.stmt, scope: Scope, answers: dict[object, Any]
) -> Iterator[tuple[str, ast.stmt]]:
    function = scope.function
    node = function.node if function is not None else _module(scope)
    body = node.body if isinstance(node, FunctionNode | ast.Module) else None
    if not isinstance(body, list):
        return
    known = {a.arg for a in parameters(node)} if isinstance(node, FunctionNode) else set()
    key = ("declared", id(node))
    if key not in answers:
        answers[key] = declared(node)
    known |= answers[key]
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
