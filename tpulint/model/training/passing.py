"""What passes gradients on from the output of modules: statements that compute on with it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tpulint.knowledge.tensors import READS
from tpulint.model.names.scopes import Scope
from tpulint.model.training.effects import effects
from tpulint.model.values.pending import statements

if TYPE_CHECKING:
    from tpulint.model.training.learned import Learned

#: What gives no gradient on.
_APART = READS | {"argmax", "argmin", "argsort", "bernoulli", "detach", "multinomial"}


def passes_on(learned: Learned, body: list[ast.stmt], statement: ast.stmt, scope: Scope) -> bool:
    """Whether a statement computes on with what modules gave before it, as a spectrogram of an output is."""
    bearing = set[str]()
    for one in statements(body):
        if one.lineno >= statement.lineno:
            break
        if isinstance(one, ast.Assign):
            found = effects([one])
            ends = gives_none_on(one.value) or is_number(one.value)
            if not ends and (
                learned.within(one, scope)
                or learned.is_settled(one, scope)
                or not bearing.isdisjoint(read_on(one))
            ):
                bearing |= set(found.writes)
            else:
                bearing -= set(found.writes)
    return not bearing.isdisjoint(read_on(statement))


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
