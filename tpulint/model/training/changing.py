"""What a traced function would freeze or lose: state that changes between calls, and what is done beside."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tpulint.model.references import method_around
from tpulint.model.scopes import Scope, ScopeKind
from tpulint.model.training.effects import effects, place
from tpulint.model.training.learned import own_function

if TYPE_CHECKING:
    from tpulint.model.module import Module

_DEPTH = 4
_SETS_UP = (
    "__init__",
    "__post_init__",
    "init",
    "_init",
    "build",
    "_build",
    "setup",
    "_setup",
    "configure",
    "create",
)
_KEEPS = frozenset(
    {"append", "extend", "update", "insert", "add", "pop", "clear", "remove", "write", "log", "step"}
)
_HOST_RANDOM = ("random.", "numpy.random.")


def changing_attributes(module: Module, scope: Scope) -> frozenset[str]:
    """Attributes of `self` that methods assign which do not set the instance up, as `self.x`."""
    method = method_around(scope)
    if method is None or method.owner is None:
        return frozenset()
    cls = f"{module.name}.{method.owner.qualname}"
    found = set()
    for (owner, attribute), assigned in module.assignments.items():
        setters = {place.function.name for _, place in assigned if place.function is not None}
        if owner in module.project.mro(cls) and not all(name.startswith(_SETS_UP) for name in setters):
            found.add(f"self.{attribute}")
    changed = {
        name
        for function in module.index.functions
        if function.owner is method.owner and not function.name.startswith(_SETS_UP)
        for node in ast.walk(function.node)
        if isinstance(node, ast.AugAssign) and (name := place(node.target)) is not None
    }
    return frozenset(found | {name for name in changed if name.startswith("self.")})


def unsteady(module: Module, statements: Iterable[ast.stmt], scope: Scope) -> str | None:
    """Why statements must be executed each time, not once while tracing; None where they need not."""
    for function in _functions(module, statements, scope, 0, set()):
        why = _why(module, function)
        if why is not None:
            return f"`{function.name}` {why}"
    return None


def _functions(
    module: Module, nodes: Iterable[ast.AST], scope: Scope, depth: int, seen: set[int]
) -> Iterator[Scope]:
    """The functions of this file that statements call, directly or not."""
    for outer in nodes:
        for node in ast.walk(outer):
            if not isinstance(node, ast.Call):
                continue
            function = own_function(module, node.func, scope)
            if function is not None and id(function) not in seen and depth < _DEPTH:
                seen.add(id(function))
                yield function
                body = getattr(function.node, "body", [])
                yield from _functions(
                    module, body if isinstance(body, list) else [body], function, depth + 1, seen
                )


def _why(module: Module, function: Scope) -> str | None:
    found = effects(getattr(function.node, "body", []) if isinstance(function.node, ast.FunctionDef) else [])
    state = sorted(name for name in found.writes if name.startswith("self."))
    if state:
        return f"sets `{state[0]}`"
    changing = sorted(changing_attributes(module, function) & set(found.reads))
    if changing:
        return f"reads `{changing[0]}`, which changes"
    if any(scope.kind is ScopeKind.MODULE for scope in function.declared.values()):
        return "sets a global"
    for node in ast.walk(function.node):
        if isinstance(node, ast.Call):
            name = module.names.qualified(node.func, function) or ""
            if name.startswith(_HOST_RANDOM):
                return f"draws from `{name.rpartition('.')[0]}`"
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute)
            and node.value.func.attr in _KEEPS
            and (root := place(node.value.func.value)) is not None
            and root not in found.writes
        ):
            return f"calls `{ast.unparse(node.value.func)}`"
    return None
