"""Functions that give tensors made on the host, whatever calls hand to them: tables of angles, grids, masks.

The text alone decides, so that the functions of other files can be told what they get.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from tpulint.knowledge.tensors import FACTORIES, NEVER_ON_HOST, READS
from tpulint.knowledge.torch_api import FUNCTIONS, METHODS
from tpulint.model.names.index import Index
from tpulint.model.names.qualified import Names
from tpulint.model.names.scopes import FunctionNode, Scope, parameters

_PLAIN_BUILTINS = frozenset(
    {"len", "int", "float", "range", "max", "min", "sum", "round", "enumerate", "zip"}
)
_MOVES = frozenset({"to", "cuda", "type_as", "type", "new_tensor", "xpu"}) | READS
_DEPTH = 12


class Value(NamedTuple):
    """A value that is a host tensor, or a plain one, unless some parameters are tensors of the device.

    `needs` are these parameters of the function around.
    """

    is_tensor: bool
    needs: frozenset[str] = frozenset()


_PLAIN, _HOST = Value(is_tensor=False), Value(is_tensor=True)


class Given(NamedTuple):
    """What a function gives: which items of the tuple, or whether the one value, are host tensors.

    That holds for calls that hand no tensors of the device to the parameters `needs`.
    """

    items: tuple[bool, ...] = ()
    is_tuple: bool = False
    needs: tuple[str, ...] = ()


class OnHost:
    """Finds such functions in one file."""

    def __init__(self, index: Index, names: Names) -> None:
        self._names = names
        self._functions = {f"{names.module}.{scope.qualname}": scope for scope in index.functions}
        self._given: dict[int, Given] = {}
        self._variables: dict[tuple[int, str], Value | None] = {}
        self._appended: dict[tuple[int, str], list[ast.expr]] = {}
        for call, place in index.calls.get("append", ()):
            match call:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name)), args=[item]):
                    self._appended.setdefault((id(place.function), name), []).append(item)

    def given(self, scope: Scope) -> Given:
        """What a function gives that is made on the host."""
        key = id(scope)
        if key not in self._given:
            self._given[key] = Given()  # while it is being found out
            self._given[key] = self._find(scope)
        return self._given[key]

    def _find(self, scope: Scope) -> Given:
        node = scope.node
        if not isinstance(node, ast.FunctionDef):
            return Given()
        returned = scope.returned if not scope.yields else []
        shapes = {len(value.elts) if isinstance(value, ast.Tuple) else -1 for value in returned}
        if not returned or (len(shapes) != 1 and not {2} <= shapes <= {-1, 2}):
            return Given()
        if len(shapes) > 1:  # one or two, depending on what is asked for
            value = self._all([one for one in returned if one is not None], scope, _DEPTH)
            whole = value is not None and value.is_tensor
            return (
                Given((True, True), is_tuple=True, needs=tuple(sorted(value.needs)))
                if whole and value
                else Given()
            )
        is_tuple = shapes != {-1}
        rows = [value.elts if isinstance(value, ast.Tuple) else [value] for value in returned]
        items, needs = [], set[str]()
        for column in zip(*rows, strict=True):
            values = [self._value(one, scope, _DEPTH) if one is not None else None for one in column]
            is_host = all(value is not None and value.is_tensor for value in values)
            items.append(is_host)
            needs |= {name for value in values if is_host and value is not None for name in value.needs}
        return Given(tuple(items), is_tuple, tuple(sorted(needs))) if any(items) else Given()

    def _value(self, node: ast.expr, scope: Scope, depth: int) -> Value | None:
        """A value, or None where it may be on the device."""
        if not depth:
            return None
        match node:
            case ast.Constant():
                return _PLAIN
            case ast.Name(id=name):
                return self._variable(name, scope, depth)
            case ast.Attribute(attr="shape" | "ndim" | "dtype"):
                return _PLAIN
            case ast.Attribute():
                is_constant = (self._names.qualified(node, scope) or "").startswith(("math.", "torch."))
                return _PLAIN if is_constant else None
            case ast.Subscript(value=inner) | ast.UnaryOp(operand=inner) | ast.Starred(value=inner):
                return self._value(inner, scope, depth - 1)
            case ast.BinOp(left=left, right=right):
                return self._all([left, right], scope, depth)
            case ast.IfExp(body=body, orelse=orelse):
                return self._all([body, orelse], scope, depth)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return self._all(items, scope, depth)
            case ast.ListComp(elt=inner) | ast.GeneratorExp(elt=inner):
                return self._all([inner, *(part.iter for part in node.generators)], scope, depth)
            case ast.Call():
                return self._call(node, scope, depth)
        return None

    def _all(self, nodes: list[ast.expr], scope: Scope, depth: int) -> Value | None:
        known: list[Value] = []
        for one in nodes:
            value = self._value(one, scope, depth - 1)
            if value is None:
                return None
            known.append(value)
        needs = frozenset[str]().union(*(value.needs for value in known))
        return Value(any(value.is_tensor for value in known), needs)

    def _call(self, call: ast.Call, scope: Scope, depth: int) -> Value | None:
        called = self._names.qualified(call.func, scope)
        if called is None:
            if not isinstance(call.func, ast.Attribute):
                return None
            if call.func.attr in _MOVES:
                given_dtype = call.func.attr == "to" and not self._operands(call, scope)
                return self._value(call.func.value, scope, depth - 1) if given_dtype else None
            if call.func.attr not in METHODS:
                return None
            return self._all([call.func.value, *self._operands(call, scope)], scope, depth)
        name = called.removeprefix("torch.")
        if called.startswith("torch."):
            if any(word.arg == "device" for word in call.keywords) or name in NEVER_ON_HOST:
                return None
            if name in FACTORIES:
                if name not in ("tensor", "as_tensor", "full"):
                    return _HOST
                value = self._all(self._operands(call, scope), scope, depth)
                return value._replace(is_tensor=True) if value is not None else None
            return self._all(self._operands(call, scope), scope, depth) if name in FUNCTIONS else None
        if called.removeprefix("builtins.") in _PLAIN_BUILTINS:
            return _PLAIN
        own = self._functions.get(called)
        return self._own_call(own, call, scope, depth) if own is not None else None

    def _own_call(self, own: Scope, call: ast.Call, scope: Scope, depth: int) -> Value | None:
        found = self.given(own)
        if not found.items or not all(found.items):
            return None
        taken = [one.arg for one in parameters(own.node)] if isinstance(own.node, FunctionNode) else []
        handed = dict(zip(taken, call.args, strict=False)) | {w.arg: w.value for w in call.keywords if w.arg}
        value = self._all([handed[name] for name in found.needs if name in handed], scope, depth)
        return value._replace(is_tensor=True) if value is not None else None

    def _operands(self, call: ast.Call, scope: Scope) -> list[ast.expr]:
        """The arguments of a call but for dtypes, texts and numbers."""
        given = (*call.args, *(word.value for word in call.keywords))
        return [one for one in given if not self._is_text(one, scope)]

    def _is_text(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an argument is a dtype, a text or a number."""
        if isinstance(node, ast.Constant):
            return True
        return (self._names.qualified(node, scope) or "").startswith("torch.")

    def _variable(self, name: str, scope: Scope, depth: int) -> Value | None:
        function = scope.function
        if function is None or name not in function.bindings:
            return self._looped(name, scope, depth)
        key = (id(function), name)
        if key not in self._variables:
            self._variables[key] = _PLAIN  # while it is being found out
            node = function.node
            taken = {one.arg for one in parameters(node)} if isinstance(node, FunctionNode) else set()
            bound = [binding.value for binding in function.bindings[name]]
            values = [value for value in bound if value is not None] + self._appended.get(key, [])
            found = self._all(values, function, depth)
            others = sum(value is None for value in bound) - (name in taken)
            looped = function.loops.get(name) if others else None
            if looped is not None:
                found = self._all([*values, looped], function, depth)
            elif others > 0:
                found = None
            if found is not None and name in taken:
                found = Value(found.is_tensor, found.needs | {name})
            self._variables[key] = found
        return self._variables[key]

    def _looped(self, name: str, scope: Scope, depth: int) -> Value | None:
        """A name that a comprehension around a place binds."""
        for child in scope.children:
            if name in child.loops:
                return self._value(child.loops[name], scope, depth - 1)
        return None
