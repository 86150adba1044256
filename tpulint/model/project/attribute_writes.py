"""Classes whose methods write to attributes of their objects."""

from __future__ import annotations

import ast

from tpulint.knowledge.views import WRITES
from tpulint.model.names.index import within
from tpulint.model.names.scopes import FunctionNode

#: Methods that change a list, a dictionary or a set.
_FILL = frozenset(
    {
        *("add", "append", "appendleft", "clear", "extend", "insert"),
        *("pop", "popleft", "remove", "setdefault", "update"),
    }
)
_CHANGES = WRITES | _FILL | {"register_buffer"}
#: Methods that make an object.
_MAKE = frozenset({"__init__", "__new__", "__post_init__"})


def changes_itself(node: ast.ClassDef) -> bool:
    """Whether a method of a class, other than those that make the object, writes to its attributes."""
    return any(
        isinstance(method, FunctionNode) and method.name not in _MAKE and _writes(method)
        for method in node.body
    )


def _writes(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    owner = method.args.args[0].arg if method.args.args else ""
    for node in within(method):
        match node:
            case ast.Attribute() | ast.Subscript() if node.ctx.__class__ is not ast.Load:
                is_write = True
            case ast.Call(func=ast.Attribute(attr=name)):
                is_write = name in _CHANGES
            case _:
                continue
        if is_write and _is_of(node, owner):
            return True
    return False


def _is_of(node: ast.AST, owner: str) -> bool:
    """Whether an expression is an attribute, an element or a method of a variable."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and node.id == owner
