"""What statements read and write: plain names, and attributes of `self`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

#: Methods that change nothing that a later statement of the same function computes with.
_HARMLESS = frozenset(
    {"zero_grad", "print", "debug", "info", "warning", "set_description", "set_postfix", "write"}
)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class Effects:
    """The places that a statement reads, writes, and changes in place: `x`, or `self.x`.

    `reads` and `writes` have the nodes of each place, in the order of the text.
    """

    reads: dict[str, list[ast.expr]] = field(default_factory=dict)
    writes: dict[str, list[ast.expr]] = field(default_factory=dict)
    changes: set[str] = field(default_factory=set)

    @property
    def touched(self) -> set[str]:
        """All that is another one afterwards."""
        return {*self.writes, *self.changes}

    def take(self, other: Effects) -> None:
        """Add the effects of what comes next."""
        for own, theirs in ((self.reads, other.reads), (self.writes, other.writes)):
            for name, nodes in theirs.items():
                own.setdefault(name, []).extend(nodes)
        self.changes.update(other.changes)


#: The effects of statements that were asked for; expressions can be among their own reads, and so would
#: never leave it.
_KNOWN: WeakKeyDictionary[ast.stmt, Effects] = WeakKeyDictionary()


def effects(nodes: Iterable[ast.AST]) -> Effects:
    """The effects of statements or expressions, taken together; functions defined within are seen through.

    Nobody may change what it returns.
    """
    given = list(nodes)
    if len(given) == 1 and isinstance(given[0], ast.stmt):
        return _of_statement(given[0])
    found = Effects()
    for node in given:
        _visit(node, found, frozenset())
    return found


def _of_statement(statement: ast.stmt) -> Effects:
    found = _KNOWN.get(statement)
    if found is None:
        found = _KNOWN[statement] = Effects()
        _look_into(statement, found, frozenset())
    return found


def place(node: ast.AST) -> str | None:
    """How a name or an attribute of `self` is called; None for any other expression."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="self"), attr=attribute):
            return f"self.{attribute}"
        case _:
            return None


def root(node: ast.AST) -> str | None:
    """The place that an expression is a part of: `x` for `x[0].y`."""
    while (found := place(node)) is None and isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return found


def is_unconditional(statement: ast.stmt) -> bool:
    """Whether a statement gives its targets new values, whatever they were before."""
    is_annotated = isinstance(statement, ast.AnnAssign) and statement.value is not None
    return is_annotated or isinstance(statement, ast.Assign)


def _visit(node: ast.AST, found: Effects, hidden: frozenset[str]) -> None:
    if isinstance(node, ast.stmt) and not hidden:
        found.take(_of_statement(node))
    else:
        _look_into(node, found, hidden)


def _look_into(node: ast.AST, found: Effects, hidden: frozenset[str]) -> None:
    name = place(node)
    if name is not None and isinstance(node, ast.Name | ast.Attribute):
        if name not in hidden:
            into = found.writes if isinstance(node.ctx, ast.Store) else found.reads  # `del` wants it bound
            into.setdefault(name, []).append(node)
        return
    match node:
        case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
            _change(node, found, hidden)
        case ast.AugAssign(target=target):
            _visit(_loaded(target), found, hidden)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=base, attr=method))) if method not in _HARMLESS:
            _change(base, found, hidden)
        case ast.Call(func=ast.Attribute(value=base, attr=method)) if _is_in_place(method):
            _change(base, found, hidden)
        case ast.Global() | ast.Nonlocal() | ast.AnnAssign(value=None):
            return  # `x: Tensor` alone gives `x` no value
        case ast.ExceptHandler(name=str(bound)):
            hidden |= {bound}  # which is unbound again at the end of the handler
        case ast.FunctionDef(name=bound):
            found.writes.setdefault(bound, []).append(ast.copy_location(ast.Name(bound, ast.Store()), node))
        case _:
            pass
    if isinstance(node, _SCOPES):
        inner = effects(ast.iter_child_nodes(node))
        arguments = {a.arg for a in ast.walk(node) if isinstance(a, ast.arg)}
        for read, nodes in inner.reads.items():
            if read not in hidden | arguments | set(inner.writes):
                found.reads.setdefault(read, []).extend(nodes)
        return
    if isinstance(node, _COMPREHENSIONS):
        bound_here = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        for child in _children(node):
            if not (isinstance(child, ast.comprehension)):
                _visit(child, found, hidden | bound_here)
        for generator in node.generators:
            for child in (generator.iter, *generator.ifs):
                _visit(child, found, hidden | bound_here)
        return
    for child in _children(node):
        _visit(child, found, hidden)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node, an assignment's value before its targets."""
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        if node.value is not None:
            yield node.value
        yield from node.targets if isinstance(node, ast.Assign) else [node.target]
    else:
        yield from ast.iter_child_nodes(node)


def _loaded(target: ast.expr) -> ast.expr:
    """A target as an expression that reads it."""
    match target:
        case ast.Name(id=name):
            return ast.copy_location(ast.Name(name, ast.Load()), target)
        case ast.Attribute(value=value, attr=attribute):
            return ast.copy_location(ast.Attribute(value, attribute, ast.Load()), target)
        case _:
            return target


def _change(node: ast.AST, found: Effects, hidden: frozenset[str]) -> None:
    name = root(node)
    if name is not None and name not in hidden:
        found.changes.add(name)


def _is_in_place(method: str) -> bool:
    return method.endswith("_") and not method.endswith("__") and method != "requires_grad_"
