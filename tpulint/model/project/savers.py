"""Functions of a file that save what they are given."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tpulint.knowledge.files import SAVE
from tpulint.model.names.references import positional
from tpulint.model.names.scopes import FunctionNode, Scope
from tpulint.model.project.takers import Taker
from tpulint.model.values.kinds import Instance

if TYPE_CHECKING:
    from tpulint.model.module import Module


def savers(module: Module) -> tuple[Taker, ...]:
    """The functions of a file that save what they are given."""
    found: dict[Taker, None] = {}
    for name in ("save", "dump"):
        for call, scope in module.index.calls.get(name, ()):
            function = scope.function
            if not isinstance(call, ast.Call) or not call.args or function is None:
                continue
            if module.names.qualified(call.func, scope) in SAVE:
                taker = _taker(module, call.args[0], function)
                if taker is not None:
                    found[taker] = None
    return tuple(found)


def _taker(module: Module, value: ast.expr, function: Scope) -> Taker | None:
    qualified = f"{module.name}.{function.qualname}"
    given, node = positional(function), function.node
    match value:
        case ast.Name(id=name) if name in given and len(function.bindings[name]) == 1:
            return Taker(qualified, given.index(name), name)
        case ast.Starred(value=ast.Name(id=name)) if isinstance(node, FunctionNode):
            if not given and node.args.vararg is not None and node.args.vararg.arg == name:
                return Taker(qualified, 0, "")
    return None


def saved_elsewhere(module: Module) -> Iterator[tuple[ast.expr, Scope]]:
    """What a file hands to functions of other files that save it, or to those that hand on all they get."""
    for saver in module.project.savers:
        last = saver.function.rpartition(".")[2]
        if saver.parameter and saver.function in module.functions:
            continue
        for call, scope in module.index.calls.get(last, ()):
            if not isinstance(call, ast.Call) or _called(module, call, scope) != saver.function:
                continue
            named = [word.value for word in call.keywords if word.arg == saver.parameter]
            given = named or call.args[saver.position : saver.position + 1]
            if given and not isinstance(given[0], ast.Starred):
                yield given[0], scope


def _called(module: Module, call: ast.Call, scope: Scope) -> str | None:
    """The function of the project that a call means, by its name or by the class of the object."""
    qualified = module.names.qualified(call.func, scope)
    if qualified is not None:
        return module.project.resolve(qualified)
    if isinstance(call.func, ast.Attribute):
        kind = module.kind(call.func.value, scope)
        if isinstance(kind, Instance):
            return module.project.method(module.project.resolve(kind.cls), call.func.attr)
    return None
