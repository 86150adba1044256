"""Functions of a file that save what they are given."""

from __future__ import annotations

import ast

from tpulint.knowledge.files import SAVE
from tpulint.model.names.references import positional
from tpulint.model.names.scopes import FunctionNode, Scope
from tpulint.model.project.takers import Taker
from tpulint.model.syntax.parsed_file import ParsedFile


def savers(module: ParsedFile) -> tuple[Taker, ...]:
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


def _taker(module: ParsedFile, value: ast.expr, function: Scope) -> Taker | None:
    qualified = f"{module.name}.{function.qualname}"
    given, node = positional(function), function.node
    match value:
        case ast.Name(id=name) if name in given and len(function.bindings[name]) == 1:
            return Taker(qualified, given.index(name), name)
        case ast.Starred(value=ast.Name(id=name)) if isinstance(node, FunctionNode):
            if not given and node.args.vararg is not None and node.args.vararg.arg == name:
                return Taker(qualified, 0, "")
    return None
