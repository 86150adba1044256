"""Which parameters of a function the function itself uses in ways that only tensors allow."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tensors import (
    METHOD_TAKES,
    PROVE_TENSOR,
    TAKE_EACH,
    TAKE_LIST,
    TAKE_TENSOR,
    TAKE_TENSORS,
    TENSOR_ATTRIBUTES,
)
from tpulint.model.names.evidence import attributes_of, is_made, takes_arrays
from tpulint.model.names.index import Index
from tpulint.model.names.qualified import Names
from tpulint.model.names.scopes import FunctionNode, Scope, ScopeKind, parameters

#: For each function, by identity, the names that it uses as tensors, with the first row.
Uses = dict[int, dict[str, int]]
#: Functions of einops whose first argument is a tensor.
_REARRANGE = frozenset(f"einops.{name}" for name in ("rearrange", "reduce", "repeat"))
#: Functions whose arguments after the first, a text, are tensors.
_EINSUM = frozenset({"torch.einsum", "torch.functional.einsum", "einops.einsum"})


def sure_tensors(scope: Scope, used: Uses, names: Names) -> frozenset[str]:
    """The parameters without annotation that can be nothing but tensors, by what the function does to them.

    A use counts only ahead of the place where the function gives the name another value.
    Arrays share most of the attributes of tensors, so what is handed to NumPy is none.
    """
    node = scope.node
    if not isinstance(node, FunctionNode):
        return frozenset()
    first = used.get(id(scope), {})
    wanted = {a.arg for a in parameters(node) if a.annotation is None and a.arg not in ("self", "cls")}
    return frozenset(
        name
        for name, row in first.items()
        if name in wanted
        and attributes_of(scope, name) <= TENSOR_ATTRIBUTES
        and row <= first_remade(scope, name, names)
        and not any(takes_arrays(call, scope, names) for call in scope.passed.get(name, ()))
    )


def first_remade(scope: Scope, name: str, names: Names) -> float:
    """The row in which a function first gives a parameter a value that is no operation on what it had."""
    bound = (binding.value for binding in scope.bindings.get(name, ()))
    rows = (v.lineno for v in bound if v is not None and is_made(v, name, scope, names))
    return min(rows, default=float("inf"))


def used_as_tensors(index: Index, names: Names) -> Uses:
    """The names that functions, and those within them, use as tensors, each with the first row."""
    found: Uses = {}
    for name, row, place in _uses(index, names):
        scope: Scope | None = place
        while scope is not None:
            if scope.kind is ScopeKind.FUNCTION:
                rows = found.setdefault(id(scope), {})
                rows[name] = min(row, rows.get(name, row))
            scope = scope.parent
    return found


def _uses(index: Index, names: Names) -> Iterator[tuple[str, int, Scope]]:
    """Names that are used as tensors, each with the row and the scope."""
    for attribute in PROVE_TENSOR:
        for node, scope in index.taken.get(attribute, ()):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                yield node.value.id, node.lineno, scope
    for node, scope in index.nodes[ast.Call]:
        assert isinstance(node, ast.Call)
        for part in _operands(node, scope, names) if scope.function is not None else ():
            if isinstance(part, ast.Name):
                yield part.id, node.lineno, scope


def _operands(call: ast.Call, scope: Scope, names: Names) -> Iterator[ast.expr]:
    """The arguments of a call that can be nothing but tensors."""
    arguments = call.args
    if not arguments:
        return
    if isinstance(call.func, ast.Attribute) and call.func.attr in METHOD_TAKES:
        place = METHOD_TAKES[call.func.attr]
        yield from arguments[place : place + 1]
    called = names.qualified(call.func, scope) or ""
    if called in _EINSUM:
        yield from arguments[1:]
    elif called in _REARRANGE:
        yield arguments[0]
    elif called.startswith("torch."):
        name = called.removeprefix("torch.")
        if name in TAKE_LIST:
            yield from getattr(arguments[0], "elts", ())
        elif name in TAKE_EACH:
            yield from arguments
        else:
            yield from arguments[: TAKE_TENSORS.get(name, 1 if name in TAKE_TENSOR else 0)]
