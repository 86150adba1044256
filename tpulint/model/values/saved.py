"""Values that a file passes to functions of other files that save them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.model.names.scopes import Scope
from tpulint.model.values.kinds import Instance
from tpulint.model.values.typed_file import TypedFile


def saved_elsewhere(module: TypedFile) -> Iterator[tuple[ast.expr, Scope]]:
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


def _called(module: TypedFile, call: ast.Call, scope: Scope) -> str | None:
    """The function of the project that a call means, by its name or by the class of the object."""
    qualified = module.names.qualified(call.func, scope)
    if qualified is not None:
        return module.project.resolve(qualified)
    if isinstance(call.func, ast.Attribute):
        kind = module.kind(call.func.value, scope)
        if isinstance(kind, Instance):
            return module.project.method(module.project.resolve(kind.cls), call.func.attr)
    return None
