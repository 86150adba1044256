"""What functions of one file tell each other: kinds of arguments to parameters, of results to calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tpulint.model.kinds import STATIC, UNKNOWN, Kind, Several, Static, Tensor, joined
from tpulint.model.references import method_around
from tpulint.model.scopes import FunctionNode, Scope

if TYPE_CHECKING:
    from tpulint.model.module import Module

#: Decorators that leave alone what a function takes and gives.
_TRANSPARENT = frozenset(
    {
        *("builtins.staticmethod", "builtins.classmethod"),
        *("torch.no_grad", "torch.inference_mode", "torch.compile", "torch.jit.script", "torch.jit.ignore"),
    }
)


def callers(module: Module, scope: Scope) -> Iterator[Scope]:
    """The traced functions of the file that call a function of it which leaves parameters undeclared."""
    node = scope.node
    if isinstance(node, ast.FunctionDef) and any(a.annotation is None for a in _plain(node)):
        for _, place in _calls(module, scope):
            function = place.function
            if function is not None and function is not scope and module.trace_path(function) is not None:
                yield function


def handed_kind(module: Module, scope: Scope, parameter: str) -> Kind:
    """What the file's calls of a function hand to a parameter; `UNKNOWN` unless all of them tell."""
    node = scope.node
    if not isinstance(node, ast.FunctionDef):
        return UNKNOWN
    names = [argument.arg for argument in _plain(node)]
    if scope.owner is not None and names[:1] in (["self"], ["cls"]):
        del names[0]
    kinds: list[Kind] = []
    for call, place in _calls(module, scope):
        argument = _argument(call, names, parameter)
        kinds.append(module.kind_so_far(argument, place) if argument is not None else UNKNOWN)
    if UNKNOWN in kinds:
        return UNKNOWN
    return _abroad(joined(tuple(kinds)))


def _plain(node: ast.FunctionDef) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def _calls(module: Module, scope: Scope) -> Iterator[tuple[ast.Call, Scope]]:
    for call, place in module.index.calls.get(scope.name, ()):
        if not isinstance(call, ast.Call):
            continue
        if scope.owner is None:
            if module.names.qualified(call.func, place) == f"{module.name}.{scope.qualname}":
                yield call, place
        elif isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") == "self":
            method = method_around(place)
            if method is not None and method.owner is scope.owner:
                yield call, place


def _argument(call: ast.Call, names: list[str], parameter: str) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == parameter:
            return keyword.value
    position = names.index(parameter) if parameter in names else len(names)
    before = call.args[: position + 1]
    if len(before) <= position or any(isinstance(argument, ast.Starred) for argument in before):
        return None
    return before[position]


def returned_in_file(module: Module, function: Scope) -> Kind:
    """What the returns of a function of the file give; `UNKNOWN` for what is decorated or yields."""
    node = function.node
    if not isinstance(node, FunctionNode) or isinstance(node, ast.AsyncFunctionDef):
        return UNKNOWN
    if isinstance(node, ast.FunctionDef) and function.parent is not None:
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if module.names.qualified(called, function.parent) not in _TRANSPARENT:
                return UNKNOWN
    flow = module.flow(function)
    if flow is None or flow.yields:
        return UNKNOWN
    return _abroad(joined(tuple(flow.returned)))


def _abroad(kind: Kind) -> Kind:
    """A kind as another function sees it: the names and constants of the one that it comes from are gone."""
    if isinstance(kind, Tensor):
        return replace(kind, root="")
    if isinstance(kind, Several):
        items = tuple(map(_abroad, kind.items)) if kind.items is not None else None
        return Several(_abroad(kind.element), items)
    if isinstance(kind, Static) and kind.value is not None:
        return STATIC
    return kind
