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
from tpulint.model.names.index import within
from tpulint.model.names.qualified import Names
from tpulint.model.names.scopes import FunctionNode, Scope, parameters

#: Functions of einops whose first argument is a tensor.
_REARRANGE = frozenset(f"einops.{name}" for name in ("rearrange", "reduce", "repeat"))
#: Functions whose arguments after the first, a text, are tensors.
_EINSUM = frozenset({"torch.einsum", "torch.functional.einsum", "einops.einsum"})


def sure_tensors(scope: Scope, names: Names) -> frozenset[str]:
    """The parameters without annotation that can be nothing but tensors, by what the function does to them.

    A use counts only ahead of the place where the function gives the name another value.
    Arrays share most of the attributes of tensors, so what is handed to NumPy is none.
    """
    node = scope.node
    if not isinstance(node, FunctionNode):
        return frozenset()
    wanted = {a.arg for a in parameters(node) if a.annotation is None and a.arg not in ("self", "cls")}
    if not wanted:
        return frozenset()
    first: dict[str, int] = {}
    for name, row in _uses(scope, names):
        if name in wanted:
            first[name] = min(row, first.get(name, row))
    return frozenset(
        name
        for name, row in first.items()
        if attributes_of(scope, name) <= TENSOR_ATTRIBUTES
        and row <= first_remade(scope, name, names)
        and not any(takes_arrays(call, scope, names) for call in scope.passed.get(name, ()))
    )


def first_remade(scope: Scope, name: str, names: Names) -> float:
    """The row in which a function first gives a parameter a value that is no operation on what it had."""
    bound = (binding.value for binding in scope.bindings.get(name, ()))
    rows = (v.lineno for v in bound if v is not None and is_made(v, name, scope, names))
    return min(rows, default=float("inf"))


def _uses(scope: Scope, names: Names) -> Iterator[tuple[str, int]]:
    """Names that a function uses as tensors, each with the row."""
    for node in within(scope.node):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if attribute in PROVE_TENSOR:
                yield name, node.lineno
            case ast.Call():
                for part in _operands(node, scope, names):
                    if isinstance(part, ast.Name):
                        yield part.id, node.lineno


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
