"""What gives the inputs of a part of a training step, where those bear gradients, too."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from tpulint.model.names.references import method_around
from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.bound import surely_written
from tpulint.model.syntax.effects import effects
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.model.training.boundaries import blocks_around, is_without_gradient
from tpulint.model.training.detached import gives_none_on
from tpulint.model.training.flow import taken_in
from tpulint.model.training.learned import Learned, infers
from tpulint.model.training.movable import LOOPS, only_scales
from tpulint.model.training.passing import passes_on
from tpulint.model.training.regions import Region, in_block
from tpulint.model.values.pending import statements as statements_of
from tpulint.model.values.typed_file import TypedFile


def carriers(
    module: TypedFile, learned: Learned, user: Region, taken: Set[int], scope: Scope
) -> Iterator[tuple[Region, Scope]]:
    """Regions of one statement each that give what another region takes in, where that bears gradients.

    They stand in the same function, or, for attributes of `self`, in another method; `taken` has the `id`s of
    the statements of regions. What is computed once, before the loop in which a loss is, bears none: they
    could be taken but once. A region comes again where another takes in more of what its statement writes.
    """
    given: dict[int, set[str]] = {}
    walk = [_givers(module, learned, user, taken, scope)]
    while walk:
        statement, names, function, is_beside = next(walk[-1], (None, set[str](), scope, False))
        if statement is None:
            walk.pop()
            continue
        known = given.setdefault(id(statement), set())
        if names <= known:
            continue
        known |= names
        found = _giving(module, learned, statement, set(known), function, is_beside=is_beside)
        if found is not None:
            yield found, function
            walk.append(_givers(module, learned, found, taken, function))


def _givers(
    module: TypedFile, learned: Learned, user: Region, taken: Set[int], scope: Scope
) -> Iterator[tuple[ast.Assign | ast.AnnAssign, set[str], Scope, bool]]:
    """The statements that write what a region takes in: which of that, in which function.

    The last value says whether that is the function of the region.
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
            written = effects([statement]).writes
            given = wanted & set(written)
            if not given or gives_none_on(statement.value) or infers(module, statement.value, function):
                continue
            if _makes_optimizer(module, statement.value, function):
                continue
            if function is places[0] and not loops <= _loops(module, statement):
                continue
            given -= {name for name in given if learned.is_module(written[name][0], function)}
            # What calls a module keeps its statistics where it is moved.
            if function is places[0] and statement.lineno > last and not learned.within(statement, function):
                given -= anew
            if given and not is_without_gradient(module, statement, function):
                yield statement, given, function, function is places[0]


def _giving(
    module: TypedFile,
    learned: Learned,
    statement: ast.Assign | ast.AnnAssign,
    given: set[str],
    function: Scope,
    *,
    is_beside: bool,
) -> Region | None:
    """The region of a statement that gives some names; None where these bear no gradients.

    `is_beside` says that what takes them in stands in the same function.
    """
    found = in_block(module, learned, [statement], given, function)
    if isinstance(found, Region):
        return found
    if found is not None or not is_beside or only_scales(statement):
        return None
    body = getattr(function.node, "body", [])
    if learned.is_settled(statement, function) or not passes_on(learned, body, statement, function):
        return None
    inputs = tuple(dict.fromkeys(taken_in(module, [statement], function)))
    # Of two names that a statement binds something else may take in the other one.
    others = (one for one in effects([statement]).writes if one.isidentifier() and one not in given)
    return Region((statement,), (), (), inputs, (*sorted(given), *others))


def _makes_optimizer(module: ParsedFile, value: ast.expr | None, scope: Scope) -> bool:
    """Whether a value is an optimizer, which the computation at most asks whether it is there."""
    calls = (node for node in ast.walk(value) if isinstance(node, ast.Call)) if value is not None else ()
    return any((module.names.qualified(call.func, scope) or "").startswith("torch.optim.") for call in calls)


def _loops(module: ParsedFile, statement: ast.stmt) -> set[int]:
    """The `id`s of the loops around a statement."""
    return {id(node) for node in module.ancestors(statement) if isinstance(node, LOOPS)}
