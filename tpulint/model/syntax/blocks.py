"""Conditions that may go with what they decide."""

from __future__ import annotations

import ast


def only_asks(condition: ast.If) -> bool:
    """Whether a condition only looks at variables, at items of them by a constant, and at their lengths."""
    plain = ast.Name | ast.Attribute | ast.Constant | ast.Compare | ast.BoolOp | ast.UnaryOp
    parts = ast.cmpop | ast.boolop | ast.unaryop | ast.expr_context
    for node in ast.walk(condition.test):
        match node:
            case ast.Subscript(slice=ast.Constant()) | ast.Call(func=ast.Name(id="len"), keywords=[]):
                pass
            case _:
                if not isinstance(node, plain | parts):
                    return False
    return True
