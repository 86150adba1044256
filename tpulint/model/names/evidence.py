"""What the use of a parameter proves of it."""

from __future__ import annotations

import ast

from tpulint.knowledge.tensors import (
    FACTORIES,
    TENSOR_LIKELY,
)
from tpulint.model.names.qualified import Names
from tpulint.model.names.scopes import Scope, ScopeKind


def attributes_of(scope: Scope, name: str) -> set[str]:
    """The attributes that a function takes of a name."""
    scopes = [scope, *(child for child in scope.children if child.kind is ScopeKind.COMPREHENSION)]
    return {attribute for s in scopes for attribute in s.evidence.get(name, ())}


def used_as_tensor(scope: Scope, name: str) -> bool:
    """Whether a function takes attributes of a name that, among what models handle, only tensors have."""
    return not TENSOR_LIKELY.isdisjoint(attributes_of(scope, name))


def takes_arrays(call: ast.Call, scope: Scope, names: Names) -> bool:
    """Whether a call hands what it takes to a library of arrays other than torch's."""
    return (names.qualified(call.func, scope) or "").startswith(("numpy.", "jax.", "tensorflow."))


def is_made(value: ast.expr, name: str, scope: Scope, names: Names) -> bool:
    """Whether a value is what a call of anything but torch's operations and the name's own methods gives."""
    while isinstance(value, ast.Call | ast.Attribute | ast.Subscript):
        called = names.qualified(value.func, scope) if isinstance(value, ast.Call) else None
        if called is not None:
            return not called.startswith("torch.") or called.removeprefix("torch.") in FACTORIES
        value = value.func if isinstance(value, ast.Call) else value.value
    return isinstance(value, ast.Name) and value.id != name
