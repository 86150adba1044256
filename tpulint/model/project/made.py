"""Which classes an expression instantiates."""

from __future__ import annotations

import ast

from tpulint.knowledge.tensors import CONSTRUCTORS
from tpulint.model.names.index import within
from tpulint.model.names.qualified import Names
from tpulint.model.names.references import default_of
from tpulint.model.names.scopes import FunctionNode, Scope

#: Types whose instances are plain tensors, made by calls as by those of `torch.zeros`.
_TENSORS = frozenset(f"torch.{name}" for name in CONSTRUCTORS)


class Made:
    """Finds instantiated classes in one file, of which the qualified names of its own classes are given."""

    def __init__(self, names: Names, own: set[str]) -> None:
        self._names = names
        self._own = own

    def is_class(self, name: str) -> bool:
        """Whether a qualified name is a class's: of this file, or by the convention of a capital letter."""
        return name in self._own or (name.rpartition(".")[2][:1].isupper() and name not in _TENSORS)

    def for_value(self, value: ast.expr, scope: Scope) -> list[str]:
        """Classes that are instantiated for a value, or for the variable that it is."""
        function = scope.function
        if not isinstance(value, ast.Name) or function is None:
            return self._within(value, scope)
        bound = function.bindings.get(value.id, ())
        return [made for b in bound if b.value is not None for made in self._within(b.value, scope)]

    def _within(self, value: ast.expr, scope: Scope) -> list[str]:
        found: list[str] = []
        for node in within(value):
            if not isinstance(node, ast.Call):
                continue
            made = self._names.qualified(node.func, scope) or self._default(node.func, scope)
            if made is not None and self.is_class(made):
                found.append(made)
        return found

    def _default(self, node: ast.expr, scope: Scope) -> str | None:
        """The class that a parameter stands for by default: `norm_layer=nn.LayerNorm`."""
        function = scope.function
        if not isinstance(node, ast.Name) or function is None or not isinstance(function.node, FunctionNode):
            return None
        default = default_of(node.id, function)
        if default is None or function.parent is None:
            return None
        return self._names.qualified(default, function.parent)
