"""Tensors that gradients are asked for by name, and that no module holds."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tpulint.model.names.qualified import dotted


def makes_leaf(statement: ast.stmt) -> bool:
    """Whether a statement makes a tensor whose gradient is wanted: `torch.zeros(3, requires_grad=True)`.

    So does one that makes several, as `[torch.zeros(3, requires_grad=True) for _ in range(4)]`, or one of a
    tensor that is there, as `image.requires_grad = True`.
    """
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(), attr="requires_grad")], value=wanted):
            return isinstance(wanted, ast.Constant) and wanted.value is True
    made = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr) else None
    match made:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Dict(values=parts):
            return any(map(_is_leaf, parts))
        case ast.ListComp(elt=part) | ast.DictComp(value=part):
            return _is_leaf(part)
    return _is_leaf(made)


def _is_leaf(node: ast.expr | None) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func) or ""
    wanted = any(
        keyword.arg == "requires_grad"
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is True
        for keyword in node.keywords
    )
    return wanted or called in ("requires_grad_", "Parameter")


def listed(given: ast.expr, bound: Iterable[ast.expr]) -> list[ast.expr]:
    """The tensors, or dictionaries of them, that an optimizer is given, by a name as `bound` is."""
    if isinstance(given, ast.List):
        return given.elts
    if isinstance(given, ast.Name):
        return [item for value in bound for item in _items(value)]
    return [
        node.func.value
        for node in ast.walk(given)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "values"
    ]


def wants_gradients(loop: ast.For) -> bool:
    """Whether a loop asks for the gradients of what it goes over, by `requires_grad = True`."""
    return isinstance(loop.target, ast.Name) and any(_asks(one, loop.target.id) for one in loop.body)


def _asks(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.Assign([ast.Attribute(ast.Name(id=of), "requires_grad")], ast.Constant(True)):
            return of == name
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(id=of), "requires_grad_"))):
            return of == name
    return False


def listed_by_name(given: ast.expr, around: ast.AST) -> list[ast.expr]:
    """The items of lists or tuples, also of added ones, which something around may bind to a name."""
    if not isinstance(given, ast.Name):
        return list(_items(given))
    return [
        item
        for node in ast.walk(around)
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [given.id]
        for item in _items(node.value)
    ]


def _items(value: ast.expr) -> Iterator[ast.expr]:
    match value:
        case ast.List() | ast.Tuple():
            yield from value.elts
        case ast.BinOp(op=ast.Add()):
            yield from _items(value.left)
            yield from _items(value.right)
