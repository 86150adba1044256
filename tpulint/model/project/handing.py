"""What a function hands to the functions of the project that it calls, as far as its text shows it."""

from __future__ import annotations

import ast
from typing import NamedTuple

from tpulint.knowledge.tensors import FACTORIES, TAKE_LIST, TAKE_TENSOR, TAKE_TENSORS
from tpulint.model.names.operands import first_remade
from tpulint.model.names.qualified import Names
from tpulint.model.names.references import instances
from tpulint.model.names.scopes import FunctionNode, Scope, parameters

#: What stands for a tensor, and for a plain Python value, in the place of a parameter's name.
A_TENSOR, PLAIN = "=", "#"
_MAKES = FACTORIES | TAKE_TENSOR | TAKE_LIST | TAKE_TENSORS.keys()
_SIZES = frozenset({"shape", "ndim", "dtype", "size", "dim", "numel"})
_DEPTH = 4


class Handed(NamedTuple):
    """An argument of a call: to which function, to which parameter, and what it is.

    `place` is the parameter's name, or its position as a text; `value` is the name of the caller's own
    parameter that is passed on unchanged, or `A_TENSOR`, or `PLAIN`, or a reference to the call of an
    instance.
    """

    callee: str
    place: str
    value: str


class Handing:
    """Draws what one module's functions hand on."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._own: dict[int, frozenset[str]] = {}
        self._rows: dict[tuple[int, str], float] = {}
        self._shadowed: dict[tuple[int, str], str] = {}

    def of(self, call: ast.Call, scope: Scope, callee: str) -> list[Handed]:
        """The arguments of a call of which something is known."""
        if any(isinstance(argument, ast.Starred) for argument in call.args):
            return []
        given = [*((str(place), one) for place, one in enumerate(call.args))]
        given += [(word.arg, word.value) for word in call.keywords if word.arg is not None]
        found: list[Handed] = []
        function = scope.function
        for place, one in given:
            if function is not None and (value := self._value(one, function, call.lineno, _DEPTH)):
                found.append(Handed(callee, place, value))
                continue
            values = instances(one, scope, self._names)
            found += [Handed(callee, place, known) for known in values]
        return found

    def _value(self, node: ast.expr, function: Scope, row: int, depth: int) -> str:
        match node:
            case ast.Name(id=name):
                if name in self._parameters(function):
                    return name if row <= self._remade(function, name) else ""
                return self._variable(name, function, row, depth) if depth else ""
            case ast.Constant(value=value):
                return PLAIN if value is not None and value is not ... else ""
            case ast.Attribute(attr=attribute) if attribute in _SIZES:
                return PLAIN
            case ast.Subscript():
                held = self._value(node.value, function, row, depth)
                return held if held in (A_TENSOR, PLAIN) else ""
            case ast.BinOp():
                sides = {self._value(side, function, row, depth) for side in (node.left, node.right)}
                return A_TENSOR if A_TENSOR in sides else PLAIN if sides == {PLAIN} else ""
            case ast.UnaryOp(op=ast.USub()):
                return self._value(node.operand, function, row, depth)
            case ast.Call():
                return self._called(node, function, row, depth)
        return ""

    def _called(self, call: ast.Call, function: Scope, row: int, depth: int) -> str:
        called = self._names.qualified(call.func, function)
        if called is not None:
            if called in ("builtins.len", "builtins.int", "builtins.float", "builtins.str"):
                return PLAIN
            return A_TENSOR if called.startswith("torch.") and called[6:] in _MAKES else ""
        if isinstance(call.func, ast.Attribute):
            if call.func.attr in _SIZES:
                return PLAIN
            held = self._value(call.func.value, function, row, depth)
            return A_TENSOR if held == A_TENSOR and call.func.attr not in ("item", "tolist", "numpy") else ""
        return ""

    def _variable(self, name: str, function: Scope, row: int, depth: int) -> str:
        """What a variable of the function holds, wherever it is read."""
        key = (id(function), name)
        if key not in self._shadowed:
            self._shadowed[key] = ""  # while it is being found out
            bound = [binding.value for binding in function.bindings.get(name, ())]
            found = {
                self._value(value, function, row, depth - 1) if value is not None else "" for value in bound
            }
            only = found.pop() if len(found) == 1 else ""
            self._shadowed[key] = only if only in (A_TENSOR, PLAIN) else ""
        return self._shadowed[key]

    def _parameters(self, function: Scope) -> frozenset[str]:
        key = id(function)
        if key not in self._own:
            node = function.node
            assert isinstance(node, FunctionNode)
            self._own[key] = frozenset(argument.arg for argument in parameters(node))
        return self._own[key]

    def _remade(self, function: Scope, name: str) -> float:
        """The row up to which a parameter is what the caller passed."""
        key = (id(function), name)
        if key not in self._rows:
            self._rows[key] = first_remade(function, name, self._names)
        return self._rows[key]
