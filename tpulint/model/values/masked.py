"""Expressions that work element by element on what one boolean mask selects."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tpulint.knowledge.tensors import ELEMENTWISE
from tpulint.model.names.scopes import Scope
from tpulint.model.values.kinds import Data, Static, Tensor
from tpulint.model.values.typed_file import TypedFile

#: Those that look along a dimension, draw random numbers, or move or change their tensor.
_NOT_HERE = frozenset(
    {
        *("softmax", "log_softmax", "dropout", "rand_like", "randn_like", "empty_like", "requires_grad_"),
        *("cpu", "cuda", "to", "type", "type_as", "isin"),
    }
)
_FUNCTIONS = frozenset(name for name in ELEMENTWISE - _NOT_HERE if not name.endswith("_"))


@dataclass(frozen=True, slots=True)
class Lifted:
    """An expression of `x[mask]`, `y[mask]` and numbers, and the same expression of all of `x` and `y`.

    `reads` are the subscripts with the mask, and `text` is the source of the expression without it. `plain`
    says that it only adds, subtracts and scales, so that no value outside of the mask can change a gradient.
    `same_shape` says that the mask and the tensors are known to have the same shape.
    """

    reads: tuple[ast.Subscript, ...]
    text: str
    plain: bool
    same_shape: bool


def lifted(module: TypedFile, node: ast.expr, scope: Scope, mask: ast.expr) -> Lifted | None:
    """How an expression reads without a mask; None where it does not work element by element."""
    reads: list[ast.Subscript] = []
    plain = _collect(module, node, scope, ast.dump(mask), reads)
    if plain is None:
        return None
    start = module.source.span(node).start
    text = module.source.text[start : module.source.span(node).end]
    for read in sorted(reads, key=lambda item: -module.source.span(item).start):
        whole, base = module.source.span(read), module.source.span(read.value)
        tensor = module.source.text[base.start : base.end]
        if whole.start < base.start:  # in parentheses
            tensor = f"({tensor})"
        text = text[: whole.start - start] + tensor + text[whole.end - start :]
    kind = module.kind(mask, scope)
    root = kind.root if isinstance(kind, Tensor) and kind.is_bool else ""
    same = bool(root) and all(_root(module, read.value, scope) == root for read in reads)
    return Lifted(tuple(reads), text, plain, same)


def _root(module: TypedFile, node: ast.expr, scope: Scope) -> str:
    kind = module.kind(node, scope)
    return kind.root if isinstance(kind, Tensor) else ""


def _collect(
    module: TypedFile, node: ast.expr, scope: Scope, mask: str, reads: list[ast.Subscript]
) -> bool | None:
    """Note the reads in an expression; whether it is plain, None where it is not lifted."""
    if isinstance(node, ast.Subscript) and ast.dump(node.slice) == mask:
        if not isinstance(module.kind(node.value, scope), Tensor):
            return None
        reads.append(node)
        return True
    kind = module.kind(node, scope)
    if isinstance(kind, Static | Data) or (isinstance(kind, Tensor) and kind.scalar):
        return True
    match node:
        case ast.BinOp(op=ast.MatMult()):
            return None
        case ast.BinOp():
            sides = [_collect(module, side, scope, mask, reads) for side in (node.left, node.right)]
            numbers = any(isinstance(module.kind(side, scope), Static) for side in (node.left, node.right))
            plain = isinstance(node.op, ast.Add | ast.Sub) or (isinstance(node.op, ast.Mult) and numbers)
            return None if None in sides else plain and all(sides)
        case ast.UnaryOp(op=ast.USub() | ast.Invert()):
            return _collect(module, node.operand, scope, mask, reads)
        case ast.Call(func=ast.Attribute(attr=name)) if name in _FUNCTIONS:
            qualified = module.names.qualified(node.func, scope)
            if qualified is not None and not qualified.startswith("torch."):
                return None
            receiver = (
                [] if qualified is not None or not isinstance(node.func, ast.Attribute) else [node.func.value]
            )
            arguments = [*receiver, *node.args, *(keyword.value for keyword in node.keywords)]
            parts = [_collect(module, argument, scope, mask, reads) for argument in arguments]
            return None if None in parts else False
        case _:
            return None
