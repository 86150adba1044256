"""Modules that keep something from call to call, such as a cache, a count or running statistics."""

from __future__ import annotations

import ast

from tpulint.knowledge.views import WRITES
from tpulint.model.names.index import within
from tpulint.model.names.scopes import FunctionNode
from tpulint.model.project.classes import Classes

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
#: Modules of torch that count or average what they are called with.
OF_TORCH = ("BatchNorm", "InstanceNorm", "SyncBatchNorm", "LazyBatchNorm", "LazyInstanceNorm")


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


def keeps_state(project: Classes, cls: str) -> bool:
    """Whether a module of a class, or one within it, may keep something from call to call."""
    seen: set[str] = set()
    waiting = [cls]
    while waiting:
        one = project.resolve(waiting.pop())
        if one in seen:
            continue
        seen.add(one)
        for ancestor in project.mro(one):
            facts = project.class_(ancestor)
            if facts is None:
                if is_of_torch(ancestor):
                    return True
                continue
            if facts.changes_itself:
                return True
            waiting += [made for held in facts.modules.values() for made in held]
    return False


def is_of_torch(name: str) -> bool:
    """Whether a class is a module of torch that keeps statistics."""
    return name.startswith("torch.nn.") and name.rpartition(".")[2].startswith(OF_TORCH)
