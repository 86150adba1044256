"""What passes gradients on from the output of modules: statements that compute on with it."""

from __future__ import annotations

import ast

from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.effects import effects
from tpulint.model.training.detached import gives_none_on, is_number, read_on
from tpulint.model.training.learned import Learned
from tpulint.model.values.pending import statements


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
