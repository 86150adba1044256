"""How the value of an expression is used, and which conditions need a concrete value."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tensors import ELEMENTWISE, READS, SIZED_FACTORIES
from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.model.values.kinds import Data, Several, Static, Tensor
from tpulint.model.values.typed_file import TypedFile

#: Functions and methods that take a tensor without dimensions as well as a number.
_TAKE_EITHER = ELEMENTWISE | frozenset(
    {"where", "maximum", "minimum", "lerp", "addcmul", "remainder", "fmod", "atan2"}
)
#: Methods that fix the dtype in which a function computes.
_CONVERSIONS = frozenset({"half", "bfloat16", "float", "double", "type", "type_as", "autocast"})
_DEPTH = 4


def loads(function: ast.AST, name: str) -> Iterator[ast.Name]:
    """Where a function reads a name."""
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            yield node


def serves_as_tensor(module: TypedFile, node: ast.expr, scope: Scope, depth: int = 0) -> bool:
    """Whether a Python scalar could be a zero-dimensional tensor everywhere it is used.

    It could where it is combined with a tensor in arithmetic, or passed to a function that accepts both; not
    where it becomes a size, an index, a condition, a string or a result.
    """
    outer = module.parent(node)
    match outer:
        case ast.BinOp() if not isinstance(outer.op, ast.Mod) or outer.right is node:
            other = outer.right if outer.left is node else outer.left
            if isinstance(module.kind(other, scope), Tensor):
                return True
            return serves_as_tensor(module, outer, scope, depth)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
            return serves_as_tensor(module, outer, scope, depth)
        case ast.Compare():
            others = [side for side in (outer.left, *outer.comparators) if side is not node]
            return all(isinstance(module.kind(side, scope), Tensor) for side in others)
        case ast.keyword():
            call = module.parent(outer)
            return isinstance(call, ast.Call) and _takes_either(module, call, scope)
        case ast.Call():
            return node is not outer.func and _takes_either(module, outer, scope)
        case ast.Assign(targets=[ast.Name(id=name)]) if depth < _DEPTH:
            function = scope.function
            if function is None or len(function.bindings.get(name, ())) != 1:
                return False
            uses = list(loads(function.node, name))
            return bool(uses) and all(serves_as_tensor(module, use, scope, depth + 1) for use in uses)
        case _:
            return False


def in_place_of_number(tensor: ast.expr, text: str, kind: Tensor) -> str:
    """The source of a tensor in place of its scalar, detached, since a scalar has no gradient."""
    if not isinstance(tensor, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        text = f"({text})"
    return text if kind.dtype in ("bool", "int") or text.endswith(".detach()") else f"{text}.detach()"


def _takes_either(module: TypedFile, call: ast.Call, scope: Scope) -> bool:
    qualified = module.names.qualified(call.func, scope)
    if qualified is not None:
        return qualified.startswith("torch.") and qualified.rpartition(".")[2] in _TAKE_EITHER
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _TAKE_EITHER:
        return False
    return isinstance(module.kind(call.func.value, scope), Tensor)


def length_around(module: ParsedFile, node: ast.expr, scope: Scope) -> ast.expr | None:
    """The expression around a node that reads its length, such as `len(node)`; None if there is none."""
    outer = module.parent(node)
    if isinstance(outer, ast.Call) and outer.args == [node]:
        return outer if module.names.qualified(outer.func, scope) == "builtins.len" else None
    whole = module.parent(outer) if isinstance(outer, ast.Attribute) else None
    match whole:
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant(value=0)):
            return whole
        case ast.Call(func=ast.Attribute(attr="size"), args=[ast.Constant(value=0)]):
            return whole
        case ast.Call(func=ast.Attribute(attr="numel"), args=[]):
            return whole
        case _:
            return None


def converts_dtypes(scope: Scope) -> bool:
    """Whether the function sets dtypes explicitly, which a tensor in place of a scalar could change."""
    function = scope.function
    if function is None:
        return False
    for node in ast.walk(function.node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            if name in _CONVERSIONS:
                return True
            if name == "to" and _mentions_dtype(node):
                return True
    return False


def _mentions_dtype(call: ast.Call) -> bool:
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(
        isinstance(argument, ast.Attribute)
        and argument.attr in ("dtype", "float16", "bfloat16", "float32", "float64", "half", "float", "double")
        for argument in arguments
    )


def concretized(module: TypedFile, test: ast.expr, scope: Scope) -> ast.expr | None:
    """Whether the condition needs a tensor's value; the part of it that does, or None.

    A scalar that `.item()` read before does not count, since the read itself is reported.
    """
    match test:
        case ast.BoolOp():
            return next(
                (found for value in test.values if (found := concretized(module, value, scope))), None
            )
        case ast.UnaryOp(op=ast.Not()):
            return concretized(module, test.operand, scope)
        case ast.Compare() if any(isinstance(op, ast.In | ast.NotIn) for op in test.ops):
            left, right = module.kind(test.left, scope), module.kind(test.comparators[-1], scope)
            if isinstance(left, Tensor) and left.is_traced:
                inside_static = isinstance(right, Several | Static) or right.is_traced
                return test if inside_static else None
            return test if right.is_traced and isinstance(left, Static | Data) else None
        case ast.Call():
            if module.kind(test, scope).is_traced:
                return test
            name = test.func.attr if isinstance(test.func, ast.Attribute) else None
            read = name in READS and name not in ("item", "tolist", "numpy")
            return test if read and isinstance(module.kind(test, scope), Data) else None
        case ast.NamedExpr():
            return concretized(module, test.value, scope)
        case _:
            return test if module.kind(test, scope).is_traced else None


def data_dependent_size(module: TypedFile, call: ast.Call, scope: Scope) -> ast.expr | None:
    """Whether a size in a call of a factory depends on a tensor's value; that size, or None.

    A scalar that was read before does not count, since the read itself is reported.
    """
    name = (module.names.qualified(call.func, scope) or "").removeprefix("torch.")
    if name not in SIZED_FACTORIES:
        return None
    positional = call.args[: SIZED_FACTORIES[name]]
    if name == "linspace":
        positional = call.args[2:3]
    for argument in (
        *positional,
        *(k.value for k in call.keywords if k.arg in ("size", "end", "steps", "n")),
    ):
        parts = argument.elts if isinstance(argument, ast.Tuple | ast.List) else [argument]
        for part in parts:
            kind = module.kind(part, scope)
            if kind.is_traced or (isinstance(kind, Data) and _reads(part)):
                return part
    return None


def _reads(node: ast.expr) -> bool:
    """Whether the expression itself reads a tensor's value into Python."""
    called = (inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call))
    return any(
        func.attr in READS if isinstance(func, ast.Attribute) else getattr(func, "id", "") in ("int", "float")
        for func in called
    )
