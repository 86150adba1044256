"""Functions of a file that torchax jits."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tpulint.model.names.scopes import FunctionNode, Scope
from tpulint.model.values.kinds import Instance
from tpulint.model.values.typed_file import TypedFile


@dataclass(frozen=True, slots=True)
class Jitted:
    """A function that is jitted.

    `by` is the call or decorator that jits it, `function` its scope, and `name` the source of the target of
    its assignment, "" if it is not assigned. `first` is the parameter, counted from 0, that gets the first
    argument of a call, and `hidden` the number of arguments that torchax passes before it.
    """

    by: ast.expr
    name: str
    function: Scope
    first: int = 0
    hidden: int = 0


def jitted_by(module: TypedFile, call: ast.Call, scope: Scope) -> Jitted | None:
    """Whether this file defines the jitted function or module; its function or `forward`, or None."""
    given, outer = call.args[0], module.parent(call)
    name = ""
    if isinstance(outer, ast.Assign) and len(outer.targets) == 1:
        name = ast.unparse(outer.targets[0])
    node: ast.AST = given
    if isinstance(given, ast.Name):
        found = module.names.lookup(given.id, scope)
        if found is not None and len(found[1]) == 1 and found[1][0].node is not None:
            node = found[1][0].node
    function = module.index.function(node) if isinstance(node, FunctionNode) else None
    if function is not None:
        return Jitted(call, name, function)
    kind = module.kind(given, scope)
    forward = module.functions.get(f"{kind.cls}.forward") if isinstance(kind, Instance) else None
    return Jitted(call, name, forward, first=1, hidden=2) if forward is not None else None
