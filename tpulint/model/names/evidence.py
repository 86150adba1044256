"""What the use of a parameter proves of it."""

from __future__ import annotations

import ast

from tpulint.knowledge.tensors import (
    FACTORIES,
    PROVE_TENSOR,
    TAKE_TENSOR,
    TENSOR_ATTRIBUTES,
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


def is_operand(scope: Scope, name: str, names: Names) -> bool:
    """Whether a function hands a parameter to functions of torch that take nothing but a tensor there."""
    if _is_made_first(scope, name, names):
        return False
    for call in scope.passed.get(name, ()):
        first = call.args[0] if call.args else None
        if isinstance(first, ast.Name) and first.id == name:
            called = names.qualified(call.func, scope) or ""
            if called.startswith("torch.") and called.removeprefix("torch.") in TAKE_TENSOR:
                return True
    return False


def is_surely_tensor(scope: Scope, name: str, names: Names) -> bool:
    """Whether a parameter can be nothing but a tensor, in code of which nobody knows what it computes with.

    Arrays share most of the attributes of tensors; and what is made into a tensor first is none yet.
    """
    taken = attributes_of(scope, name)
    if not taken <= TENSOR_ATTRIBUTES or _is_made_first(scope, name, names):
        return False
    if any(_takes_arrays(call, scope, names) for call in scope.passed.get(name, ())):
        return False
    return not PROVE_TENSOR.isdisjoint(taken) or is_operand(scope, name, names)


def _takes_arrays(call: ast.Call, scope: Scope, names: Names) -> bool:
    return (names.qualified(call.func, scope) or "").startswith(("numpy.", "jax.", "tensorflow."))


def _is_made_first(scope: Scope, name: str, names: Names) -> bool:
    """Whether a function gives a name another value than operations on the one that it has."""
    bound = (binding.value for binding in scope.bindings.get(name, ()))
    return any(value is not None and _is_made(value, name, scope, names) for value in bound)


def _is_made(value: ast.expr, name: str, scope: Scope, names: Names) -> bool:
    """Whether a value is what a call of anything but torch's operations and the name's own methods gives."""
    while isinstance(value, ast.Call | ast.Attribute | ast.Subscript):
        called = names.qualified(value.func, scope) if isinstance(value, ast.Call) else None
        if called is not None:
            return not called.startswith("torch.") or called.removeprefix("torch.") in FACTORIES
        value = value.func if isinstance(value, ast.Call) else value.value
    return isinstance(value, ast.Name) and value.id != name
