"""What gives the inputs of a part of a training step, where those bear gradients, too."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

from tpulint.model.names.references import method_around
from tpulint.model.names.scopes import Scope
from tpulint.model.training.bound import surely_written
from tpulint.model.training.boundaries import blocks_around, is_without_gradient
from tpulint.model.training.effects import effects
from tpulint.model.training.flow import taken_in
from tpulint.model.training.learned import infers
from tpulint.model.training.movable import LOOPS, only_scales
from tpulint.model.training.passing import gives_none_on, passes_on
from tpulint.model.training.regions import Region, in_block
from tpulint.model.values.pending import statements as statements_of

if TYPE_CHECKING:
    from tpulint.model.module import Module
    from tpulint.model.training.learned import Learned


def carriers(
    module: Module, learned: Learned, user: Region, taken: Set[int], scope: Scope
) -> Iterator[tuple[Region, Scope]]:
    """Regions of one statement each that give what another region takes in, where that bears gradients.

    They stand in the same function, or, for attributes of `self`, in another method; `taken` has the `id`s of
    the statements of regions. What is computed once, before the loop in which a loss is, bears none: they
    could be taken but once.
    """
    loops = _loops(module, user.statements[0])
    block, index = next(blocks_around(module, user.statements[0]))
    # What is left of an earlier round does not come to the region.
    anew = surely_written([*block[:index], *user.ahead])
    last = user.statements[-1].lineno
    method = method_around(scope)
    places = [scope.function or module.index.module]
    if method is not None and method.owner is not None:
        places += [f for f in module.index.functions if f.owner is method.owner and f is not places[0]]
    for function in places:
        wanted = {name for name in user.inputs if function is places[0] or name.startswith("self.")}
        body = getattr(function.node, "body", [])
        for statement in statements_of(body) if wanted and isinstance(body, list) else ():
            if not isinstance(statement, ast.Assign | ast.AnnAssign) or id(statement) in taken:
                continue
            if gives_none_on(statement.value) or infers(module, statement.value, function):
                continue
            if _makes_optimizer(module, statement.value, function):
                continue
            if function is places[0] and not loops <= _loops(module, statement):
                continue
            written = effects([statement]).writes
            given = {
                name for name in wanted & set(written) if not learned.is_module(written[name][0], function)
            }
            # What calls a module keeps its statistics where it is moved.
            if function is places[0] and statement.lineno > last and not learned.within(statement, function):
                given -= anew
            if given and not is_without_gradient(module, statement, function):
                found = in_block(module, learned, [statement], given, function)
                if isinstance(found, Region):
                    yield found, function
                    yield from carriers(module, learned, found, {*taken, id(statement)}, function)
                elif found is not None or function is not places[0] or only_scales(statement):
                    continue
                elif not learned.is_settled(statement, function) and passes_on(
                    learned, body, statement, function
                ):
                    inputs = tuple(dict.fromkeys(taken_in(module, [statement], function)))
                    # Of two names that a statement binds something else may take in the other one.
                    outputs = (*given, *(one for one in written if one.isidentifier() and one not in given))
                    passed = Region((statement,), (), (), inputs, outputs)
                    yield passed, function
                    yield from carriers(module, learned, passed, {*taken, id(statement)}, function)


def _makes_optimizer(module: Module, value: ast.expr | None, scope: Scope) -> bool:
    """Whether a value is an optimizer, which the computation at most asks whether it is there."""
    calls = (node for node in ast.walk(value) if isinstance(node, ast.Call)) if value is not None else ()
    return any((module.names.qualified(call.func, scope) or "").startswith("torch.optim.") for call in calls)


def _loops(module: Module, statement: ast.stmt) -> set[int]:
    """The `id`s of the loops around a statement."""
    return {id(node) for node in module.ancestors(statement) if isinstance(node, LOOPS)}
