"""Values without a gradient: numbers that are read from tensors, and tensors that are detached."""

from __future__ import annotations

import ast

from tpulint.knowledge.tensors import READS
from tpulint.model.syntax.effects import effects

#: What gives no gradient on.
_APART = READS | {"argmax", "argmin", "argsort", "bernoulli", "detach", "multinomial"}


def read_on(statement: ast.stmt) -> set[str]:
    """What a statement reads, but for what it only reads numbers out of, as `k + 0.1 * loss.item()` does."""
    apart = {
        id(inner)
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and gives_none_on(node)
        for inner in ast.walk(node)
    }
    reads = effects([statement]).reads
    return {name for name, nodes in reads.items() if any(id(node) not in apart for node in nodes)}


def gives_none_on(value: ast.expr | None) -> bool:
    """Whether a value is what something reads out of a tensor, or detaches: it bears no gradient.

    So is what methods make of that, as in `x.detach().clone()`.
    """
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr in _APART:
            return True
        value = value.func.value
    return False


def is_number(value: ast.expr | None) -> bool:
    """Whether a value is what something reads out of a tensor: numbers."""
    while isinstance(value, ast.Call | ast.Attribute | ast.Subscript):
        if isinstance(value, ast.Call):
            value = value.func
        elif isinstance(value, ast.Attribute) and value.attr in READS:
            return True
        else:
            value = value.value
    return False
