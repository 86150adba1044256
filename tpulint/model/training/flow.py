"""What statements take in, and what they hand on to others."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping

from tpulint.model.names.scopes import Scope, ScopeKind
from tpulint.model.syntax.bound import declared, surely_written
from tpulint.model.syntax.effects import effects, place
from tpulint.model.syntax.parsed_file import ParsedFile


def taken_in(module: ParsedFile, statements: list[ast.stmt], scope: Scope) -> Iterator[str]:
    """The places that are read before they are written, in the order of the text."""
    written: set[str] = set()
    given: dict[str, None] = {}
    for statement in statements:
        found = effects([statement])
        inner = _inner_inputs(statement)
        places = sorted(found.reads, key=lambda name: _position(found.reads[name]))
        for name in (*places, *sorted(found.changes)):
            if name not in written and name in inner:
                given.setdefault(name)
        written |= set(found.writes)
    for name in given:
        if name.startswith("self.") or not _is_fixed(module, name, scope):
            yield name


def _inner_inputs(statement: ast.stmt) -> set[str]:
    """What a statement reads, or changes in place, that it may not have written itself by then."""
    if isinstance(statement, ast.If):
        return _used([statement.test]) | _through(statement.body) | _through(statement.orelse)
    if isinstance(statement, ast.While):
        return _used([statement.test]) | _through(statement.body) | _through(statement.orelse)
    if isinstance(statement, ast.For):
        target = set(effects([statement.target]).writes)
        return _used([statement.iter]) | (_through(statement.body) - target) | _through(statement.orelse)
    if isinstance(statement, ast.With):
        items = _used([item.context_expr for item in statement.items])
        names = {
            n for item in statement.items if item.optional_vars for n in effects([item.optional_vars]).writes
        }
        return items | (_through(statement.body) - names)
    return _used([statement])


def _used(nodes: Iterable[ast.AST]) -> set[str]:
    found = effects(nodes)
    return {*found.reads, *found.changes}


def _through(block: list[ast.stmt]) -> set[str]:
    given: set[str] = set()
    written: set[str] = set()
    for statement in block:
        given |= _inner_inputs(statement) - written
        written |= surely_written([statement])
    return given


def _position(nodes: list[ast.expr]) -> tuple[int, int]:
    return min((node.lineno, node.col_offset) for node in nodes)


def _is_fixed(module: ParsedFile, name: str, scope: Scope) -> bool:
    """Whether a name means the same wherever it is read: imports, functions, classes, constants."""
    found = module.names.lookup(name, scope)
    if found is None:
        return name in vars(builtins) or bool(module.index.module.stars)
    owner, bindings = found
    if owner.kind is not ScopeKind.MODULE:
        return False
    if all(binding.target is not None or binding.node is not None for binding in bindings):
        return True
    return len(bindings) == 1 and (
        (name.isupper() and len(name) > 2) or isinstance(bindings[0].value, ast.Constant)
    )


def handed_on(
    module: ParsedFile, statements: list[ast.stmt], wanted: set[str], scope: Scope
) -> Iterator[str]:
    """The places written that something else may read, in the order in which they are written."""
    found = effects(statements)
    inside = {id(node) for statement in statements for node in ast.walk(statement)}
    reads, shared = _read_and_declared(module, _home(scope))
    elsewhere = {name for node, name in reads if node not in inside}
    places = sorted(found.writes, key=lambda name: _position(found.writes[name]))
    for name in dict.fromkeys([*places, *sorted(found.changes)]):
        others = found.writes if name.startswith("self.") else elsewhere | wanted | shared
        if name in others and name != "self":
            yield name


def _read_and_declared(module: ParsedFile, home: Scope) -> tuple[list[tuple[int, str]], frozenset[str]]:
    """The places that a function or a file reads, each with the `id` of its node, and its global names."""
    key = ("read and declared", id(home))
    if key not in module.answers:
        reads = _read_within(home.node, frozenset(), dict(_bound_within(home)))
        named = [(id(node), name) for node in reads if (name := place(node)) is not None]
        module.answers[key] = named, declared(home.node)
    found: tuple[list[tuple[int, str]], frozenset[str]] = module.answers[key]
    return found


def _read_within(
    node: ast.AST, hidden: frozenset[str], bound: Mapping[int, frozenset[str]]
) -> Iterator[ast.AST]:
    """What a function or a file reads, but for what functions within have bound themselves."""
    for child in ast.iter_child_nodes(node):
        is_read = isinstance(child, ast.Name | ast.Attribute) and not isinstance(child.ctx, ast.Store)
        if is_read and not (isinstance(child, ast.Name) and child.id in hidden):
            yield child
        yield from _read_within(child, hidden | bound.get(id(child), frozenset()), bound)


def _bound_within(scope: Scope) -> Iterator[tuple[int, frozenset[str]]]:
    """The names that the functions within a scope bind, by the `id` of each function's node."""
    for inner in scope.children:
        if inner.kind is ScopeKind.FUNCTION:
            yield id(inner.node), frozenset(inner.bindings)
        yield from _bound_within(inner)


def around(scope: Scope) -> ast.AST:
    """The function around a place, or the file."""
    return _home(scope).node


def _home(scope: Scope) -> Scope:
    """The scope of the function around a place, or that of the file."""
    current: Scope | None = scope
    while current is not None and current.kind not in (ScopeKind.FUNCTION, ScopeKind.MODULE):
        current = current.parent
    assert current is not None
    return current
