"""What a module does as it is imported."""

from __future__ import annotations

import ast

from tpulint.model.names.index import Index
from tpulint.model.names.qualified import Names
from tpulint.model.syntax.entry import of_main


def moves_at_import(index: Index, names: Names) -> bool:
    """Whether a module's own code puts something on a device as the module is imported."""
    found = [
        node
        for node, scope in index.nodes[ast.Call]
        if scope.function is None and isinstance(node, ast.Call) and _moves(node, names, index)
    ]
    if not found:
        return False
    of_script = {id(node) for node in of_main(index.module.node)}
    return any(id(node) not in of_script for node in found)


def _moves(call: ast.Call, names: Names, index: Index) -> bool:
    last = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if last == "cuda":
        return True
    if last == "to" and call.args and names.qualified(call.func, index.module) is None:
        return (names.qualified(call.args[0], index.module) or "").partition(".")[0] != "torch"
    given = next((keyword.value for keyword in call.keywords if keyword.arg == "device"), None)
    if given is None or (isinstance(given, ast.Constant) and str(given.value).startswith(("None", "cpu"))):
        return False
    return (names.qualified(call.func, index.module) or "").startswith("torch.")
