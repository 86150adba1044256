"""What a module does as it is imported."""

from __future__ import annotations

import ast

from tpulint.knowledge.tracing import DEVICE_STRING
from tpulint.model.names.index import Index
from tpulint.model.names.qualified import Names
from tpulint.model.syntax.entry import of_main

#: What makes a device that of all tensors that are made from there on.
_DEFAULTS = frozenset({"set_default_device", "set_default_tensor_type"})


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
    if last in _DEFAULTS and names.qualified(call.func, index.module) == f"torch.{last}":
        return any(word in ast.unparse(call) for word in ("cuda", "jax"))
    if last == "__enter__" and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call):
        return names.qualified(call.func.value.func, index.module) == "torch.device"
    if last == "to" and call.args and names.qualified(call.func, index.module) is None:
        return _may_be_device(call.args[0], names, index)
    given = next((keyword.value for keyword in call.keywords if keyword.arg == "device"), None)
    if given is None or (isinstance(given, ast.Constant) and str(given.value).startswith(("None", "cpu"))):
        return False
    return (names.qualified(call.func, index.module) or "").startswith("torch.")


def _may_be_device(given: ast.expr, names: Names, index: Index) -> bool:
    """Whether what `.to(...)` is given may be an accelerator: no dtype, and no other text."""
    match given:
        case ast.Constant(value=value):
            return isinstance(value, str) and DEVICE_STRING.match(value) is not None
        case ast.JoinedStr(values=parts):
            first = parts[0] if parts else None
            return isinstance(first, ast.Constant) and str(first.value).startswith(("cuda", "jax"))
        case ast.IfExp(body=body, orelse=otherwise):
            return any(_may_be_device(one, names, index) for one in (body, otherwise))
        case ast.Name(id=name):
            values = [one.value for one in index.module.bindings.get(name, ())]
            if values and all(isinstance(one, ast.Constant | ast.JoinedStr | ast.IfExp) for one in values):
                return any(_may_be_device(one, names, index) for one in values if one is not None)
    return (names.qualified(given, index.module) or "").partition(".")[0] != "torch"
