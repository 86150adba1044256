"""Which statements can stand in a function of their own, and which need not."""

from __future__ import annotations

import ast

from tpulint.knowledge.tensors import READS
from tpulint.model.training.losses import is_plain

_ENDS = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await)
#: What takes values to the host, where they are no part of the computation.
_READS = READS | {"cpu", "backward", "step"}
LOOPS = (ast.For, ast.AsyncFor, ast.While)


def only_scales(statement: ast.stmt) -> bool:
    """Whether a statement does no more to a loss than torch's autograd sees through on torchax."""
    match statement:
        case ast.AugAssign(target=ast.Name(), op=ast.Div() | ast.Mult(), value=value):
            return is_plain(value)
        case ast.Assign(targets=[ast.Name()], value=ast.Subscript(value=ast.Name())):
            return True
        case ast.Assign(targets=[ast.Name()], value=value):
            return is_plain(value)
    return False


def only_computes(statement: ast.stmt) -> bool:
    """Whether a statement that is in the way can join the others."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.If) or ending(statement):
        return False
    return not any(
        isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Attribute) and node.func.attr in _READS)
            or (isinstance(node.func, ast.Name) and node.func.id in ("float", "int", "bool", "print", "next"))
        )
        for node in ast.walk(statement)
    )


def begins(statement: ast.stmt) -> bool:
    """Whether a statement gives names plain values to go on with, as `loss = 0` and `losses = []` do."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            return all(map(_is_named, targets)) and _is_written_out(value)
        case ast.AnnAssign(target=ast.Name(), value=ast.expr() as value):
            return _is_written_out(value)
    return False


def _is_named(target: ast.expr) -> bool:
    """Whether a target is a name, or several."""
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    return all(isinstance(name, ast.Name) for name in names)


def _is_written_out(value: ast.expr) -> bool:
    """Whether a value is a number or text, or a list, tuple or dictionary of these."""
    kinds = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.UnaryOp, ast.unaryop, ast.Load)
    return all(isinstance(node, kinds) for node in ast.walk(value))


def unfit(statement: ast.stmt) -> str | None:
    """Why a statement cannot stand in a function of its own."""
    if isinstance(statement, ast.Try):
        return "is a `try` statement"
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return "is a function or class definition"
    return ending(statement)


def ending(statement: ast.stmt) -> str | None:
    """How a statement may end the function, or the round of the loop."""
    for node in ast.walk(statement):
        if isinstance(node, _ENDS):
            return "may leave the function before the loss is computed"
        if isinstance(node, ast.Break | ast.Continue) and not _is_inside_loop(node, statement):
            return "may leave the loop iteration before the loss is computed"
    return None


def _is_inside_loop(node: ast.AST, statement: ast.stmt) -> bool:
    loops = [outer for outer in ast.walk(statement) if isinstance(outer, LOOPS)]
    return any(node in ast.walk(loop) for loop in loops)


def going_on(statement: ast.stmt) -> list[ast.stmt] | None:
    """The branch of an `if` that leads on, where the other one ends the function or the round of the loop."""
    if not isinstance(statement, ast.If) or not statement.orelse:
        return None
    ways = [way for way in (statement.body, statement.orelse) if not any(map(ending, way))]
    return ways[0] if len(ways) == 1 else None
