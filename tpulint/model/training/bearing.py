"""Which places bear gradients behind some statements."""

from __future__ import annotations

import ast

from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.effects import effects
from tpulint.model.training.detached import gives_none_on, is_number, read_on
from tpulint.model.training.learned import Learned


def bearing_behind(
    learned: Learned,
    block: list[ast.stmt],
    through: set[str],
    scope: Scope,
    filled: frozenset[str],
    *,
    in_loop: bool = False,
    loops: dict[tuple[int, frozenset[str]], set[str]] | None = None,
) -> set[str]:
    """The places that bear gradients behind a block, if some did before it.

    What a loop detaches, or draws, is what it goes on from and collects, as rollouts of an agent are.
    `loops` keeps the results for the bodies of loops, each of which is asked for twice by the loop around it.
    """
    through, loops = set(through), {} if loops is None else loops
    for statement in block:
        found = effects([statement])
        match statement:
            case ast.If():
                ways = (statement.body, statement.orelse)
                through = set[str]().union(
                    *(
                        bearing_behind(learned, way, through, scope, filled, in_loop=in_loop, loops=loops)
                        for way in ways
                    )
                )
            case ast.With():
                body = statement.body
                through = bearing_behind(learned, body, through, scope, filled, in_loop=in_loop, loops=loops)
            case ast.For() | ast.While() if not learned.within(_head(statement), scope):
                targets = [statement.target] if isinstance(statement, ast.For) else []
                if not through.isdisjoint(effects([_head(statement)]).reads):
                    through |= set(effects(targets).writes)
                for _ in range(2):
                    round_ = id(statement), frozenset(through)
                    if round_ not in loops:
                        body = statement.body
                        loops[round_] = bearing_behind(
                            learned, body, through, scope, filled, in_loop=True, loops=loops
                        )
                    through |= loops[round_]
            case ast.Assign() | ast.AnnAssign() if is_number(statement.value):
                through -= set(found.writes)
            case ast.Assign() if in_loop and (
                gives_none_on(statement.value) or learned.is_drawn(statement.value, scope)
            ):
                through -= set(found.writes)
            case _ if learned.within(statement, scope):
                through |= found.touched | filled
            case _ if (
                not through.isdisjoint(read_on(statement) if in_loop else found.reads)
                or learned.goes_through_parameters(statement, scope)
                or learned.reads_parameters(statement, scope)
            ):
                through |= found.touched
            case ast.Assign() | ast.AnnAssign():
                through -= set(found.writes)
    return through


def _head(loop: ast.For | ast.While) -> ast.expr:
    return loop.iter if isinstance(loop, ast.For) else loop.test
