"""Which expressions have no effect, so that they can go with what they were for."""

from __future__ import annotations

import ast

#: Functions and methods, by their last name, that only compute or ask something.
_ASKING = frozenset(
    {
        "bool", "device_count", "endswith", "float", "format", "getattr", "getenv", "hasattr", "int",
        "is_available", "is_compiling", "is_dynamo_compiling", "is_initialized", "is_scripting", "is_tracing",
        "isinstance", "len", "local_device_count", "max", "min", "nullcontext", "str", "startswith",
    }
)  # fmt: skip
_EFFECTS = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)


def has_no_effect(expression: ast.expr) -> bool:
    """Whether an expression calls nothing but functions that ask, and assigns nothing."""
    if isinstance(expression, ast.Lambda):
        return True
    for node in ast.walk(expression):
        if isinstance(node, _EFFECTS):
            return False
        if isinstance(node, ast.Call) and _last_name(node.func) not in _ASKING and not _asks_environ(node):
            return False
    return True


def _asks_environ(call: ast.Call) -> bool:
    """Whether a call is `os.environ.get(...)`; `get` of a queue takes something out of it."""
    match call.func:
        case ast.Attribute(value=ast.Attribute(attr="environ") | ast.Name(id="environ"), attr="get"):
            return True
    return False


def _last_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
