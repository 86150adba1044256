"""The part of a training step that gradients flow through: from the modules' outputs to the loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from itertools import chain, islice

from tpulint.model.names.scopes import FunctionNode, Scope
from tpulint.model.syntax.bound import surely_written
from tpulint.model.syntax.effects import Effects, effects, is_unconditional
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.model.training.bearing import bearing_behind
from tpulint.model.training.boundaries import (
    asks,
    blocks_around,
    is_boundary,
    keeps_graph,
)
from tpulint.model.training.drawing import draws, may_draw
from tpulint.model.training.flow import around, handed_on, taken_in
from tpulint.model.training.hooks import filled_by_hooks
from tpulint.model.training.learned import Learned
from tpulint.model.training.leaves import makes_leaf
from tpulint.model.training.left import left
from tpulint.model.training.losses import backward_calls
from tpulint.model.training.movable import (
    LOOPS,
    begins,
    ending,
    going_on,
    only_computes,
    only_scales,
    unfit,
)
from tpulint.model.values.typed_file import TypedFile


@dataclass(frozen=True, slots=True)
class Region:
    """Statements of one block that lead from modules to a loss.

    `statements` compute; `ahead` and `behind` stand between them and can run before or after all of them.
    `inputs` are read and `outputs` written for others to read: names, and attributes of `self`.
    `earlier` are those that lead from the modules to it, where a statement has to stay in between.
    """

    statements: tuple[ast.stmt, ...]
    ahead: tuple[ast.stmt, ...]
    behind: tuple[ast.stmt, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    earlier: tuple[Region, ...] = ()

    @property
    def span(self) -> tuple[ast.stmt, ...]:
        """All of the statements, in the order of the text."""
        every = (*self.statements, *self.ahead, *self.behind)
        return tuple(sorted(every, key=lambda statement: statement.lineno))


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why no region can be told: `why` completes a sentence that begins with the line of `node`."""

    node: ast.stmt
    why: str


def region(
    module: TypedFile,
    learned: Learned,
    anchor: ast.stmt,
    wanted: set[str],
    scope: Scope,
    *,
    is_last: bool = False,
    bearing: Set[str] = frozenset(),
) -> Region | Obstacle | None:
    """The region that computes some places which a statement then reads; None where no module is involved.

    What reads them stands behind the statement, not in it, where that `is_last` of a loop; `bearing` are the
    parameters of the function that bear gradients.
    """
    for block, before_it in blocks_around(module, anchor):
        index = before_it + is_last
        wanted = wanted | _bound_of(block[before_it], wanted)
        end = index
        # Several losses of one output are computed before the first of them is differentiated.
        while end:
            start = max((i + 1 for i, s in enumerate(block[:end]) if is_boundary(s)), default=0)
            before = block[start:end]
            touching = [s for s in before if effects([s]).touched & wanted]
            if touching:
                wider = _of_gradients(module, learned, block[:end], start, wanted, scope)
                if wider is not None:
                    return wider
                borne = bearing | _borne(module, learned, before[0], scope)
                found = in_block(module, learned, before, wanted, scope, borne)
                if found is not None:
                    return found
                if not all(map(only_scales, touching)):
                    branch = module.parent(anchor)
                    if not isinstance(branch, ast.If) or _is_differentiated_behind(module, branch, scope):
                        return None
                    return _behind(module, learned, before, wanted, scope, branch)
                wanted = wanted.union(effects(touching).reads)
            end = start - 1 if start else 0
            if end and effects([block[end]]).touched & wanted:
                return None
        if is_last or any(map(is_boundary, block[:index])):
            return None
    return None


def _borne(module: ParsedFile, learned: Learned, first: ast.stmt, scope: Scope) -> set[str]:
    """What bears gradients where a block begins, from the blocks around it within the same loop."""
    around = list[list[ast.stmt]]()
    for block, index in islice(blocks_around(module, first), 1, None):
        if isinstance(block[index], LOOPS):
            break
        start = max((i + 1 for i, one in enumerate(block[:index]) if is_boundary(one)), default=0)
        around.insert(0, block[start:index])
    through = set[str]()
    for statement in chain.from_iterable(around):
        if learned.is_settled(statement, scope):
            through |= set(effects([statement]).writes)
        else:
            through = bearing_behind(learned, [statement], through, scope, frozenset())
    return through


def _is_differentiated_behind(module: ParsedFile, branch: ast.If, scope: Scope) -> bool:
    """Whether a function calls `backward` behind a branch, too: what is in front of it is moved for that."""
    last = branch.end_lineno or branch.lineno
    return any(place is scope and loss.lineno > last for loss, place in backward_calls(module))


def _behind(
    module: TypedFile, learned: Learned, block: list[ast.stmt], wanted: set[str], scope: Scope, branch: ast.If
) -> Region | Obstacle | None:
    """The region in a branch that goes on with what another one, in front of the branch, computes."""
    first = region(module, learned, branch, set(effects(block).reads), scope)
    if not isinstance(first, Region):
        return first
    last = in_block(module, learned, block, wanted, scope, set(first.outputs))
    if not isinstance(last, Region):
        return last
    return _joined(first, last)


def _bound_of(statement: ast.stmt, wanted: set[str]) -> set[str]:
    """What the wanted names are made of that a `with` binds, as in `with scale_loss(loss) as scaled:`."""
    return {
        name
        for item in (statement.items if isinstance(statement, ast.With) else ())
        if item.optional_vars is not None and not wanted.isdisjoint(effects([item.optional_vars]).writes)
        for name in effects([item.context_expr]).reads
    }


def next_rounds(
    module: TypedFile, learned: Learned, first: Region, anchor: ast.stmt, scope: Scope
) -> Iterator[Region]:
    """The regions that compute anew, at the end of a loop around a statement, what one in front of it did."""
    for loop in module.ancestors(anchor):
        if isinstance(loop, FunctionNode) or any(node is first.statements[0] for node in ast.walk(loop)):
            return
        if isinstance(loop, LOOPS):
            found = region(module, learned, loop.body[-1], set(first.outputs), scope, is_last=True)
            if isinstance(found, Region) and found.statements[0].lineno > anchor.lineno:
                yield found


def _of_gradients(
    module: TypedFile, learned: Learned, block: list[ast.stmt], start: int, wanted: set[str], scope: Scope
) -> Region | None:
    """The region that asks for gradients of what is computed ahead of a `backward` that keeps the graph.

    What asks and what it asks about have to be recorded together; that `backward` then runs behind them.
    """
    if not start or not keeps_graph(block[start - 1]) or not asks(module, block[start:], scope):
        return None
    first = max((i + 1 for i, s in enumerate(block[: start - 1]) if is_boundary(s)), default=0)
    found = in_block(module, learned, block[first:], wanted, scope)
    if not isinstance(found, Region) or found.earlier or found.statements[0].lineno > block[start].lineno:
        return None
    # What uses the gradients that are there by then stays behind the `backward`.
    is_apart = all(statement.lineno < block[start].lineno for statement in found.ahead)
    return found if is_apart and asks(module, found.statements, scope) else None


def in_block(
    module: TypedFile,
    learned: Learned,
    block: list[ast.stmt],
    wanted: set[str],
    scope: Scope,
    bearing: Set[str] = frozenset(),
) -> Region | Obstacle | None:
    """The region within a block, before which some places bear gradients already."""
    found = [effects([statement]) for statement in block]
    filled = filled_by_hooks(module, scope) | left(module, scope)
    if filled:
        found = [
            replace(one, changes=one.changes | filled) if learned.within(statement, scope) else one
            for statement, one in zip(block, found, strict=True)
        ]
    for reads_out in (False, True):
        core = _core(learned, block, found, wanted, scope, filled, bearing, reads_out=reads_out)
        if all(only_scales(block[i]) for i in core):
            return None
        sorted_out = _sorted_out(block, found, core)
        if not isinstance(sorted_out, Obstacle):
            break
    while isinstance(sorted_out, Obstacle) and only_computes(sorted_out.node):
        core = sorted({*core, next(i for i, s in enumerate(block) if s is sorted_out.node)})
        sorted_out = _sorted_out(block, found, core)
    while isinstance(sorted_out, Obstacle) and len(core) > 1 and only_scales(block[core[-1]]):
        core = core[:-1]
        sorted_out = _sorted_out(block, found, core)
    while not isinstance(sorted_out, Obstacle):
        apart = _drawn_apart(module, learned, block, core, sorted_out, scope)
        if apart is None:
            break
        core = sorted({*core, apart})
        sorted_out = _sorted_out(block, found, core)
    if isinstance(sorted_out, Obstacle):
        index = next(i for i, s in enumerate(block) if s is sorted_out.node)
        ahead = _all_touched([found[i] for i in core if i < index])
        if not found[index].touched & ahead:
            parts = block[:index], block[index + 1 :]
            return _parted(module, learned, parts, wanted, scope, ahead, bearing) or sorted_out
        return sorted_out
    core, sorted_out = _begun(block, found, core, sorted_out)
    statements = [block[i] for i in core]
    for statement in statements:
        why = unfit(statement)
        if why is not None:
            way, index = going_on(statement), next(i for i, s in enumerate(block) if s is statement)
            if way is not None and statement is statements[0]:
                parts, ahead = (way, block[index + 1 :]), found[index].touched
                parted = _parted(module, learned, parts, wanted, scope, ahead, bearing)
                return parted or Obstacle(statement, why)
            return Obstacle(statement, why)
    given = dict.fromkeys(taken_in(module, statements, scope))
    # What comes back to the statements by a loop around them leaves them, too.
    again = given if _is_repeated(statements[0], scope) else {}
    written = effects(statements).writes
    outputs = tuple(
        name
        for name in handed_on(module, statements, wanted.union(again), scope)
        # A module stays the same object, whatever its methods change in it.
        if name in written or not learned.is_module(ast.parse(name, mode="eval").body, scope)
    )
    sure = surely_written(statements)
    given.update((name, None) for name in outputs if name not in sure and not name.startswith("self."))
    return Region(tuple(statements), *sorted_out, tuple(given), outputs)


def _parted(
    module: TypedFile,
    learned: Learned,
    blocks: tuple[list[ast.stmt], list[ast.stmt]],
    wanted: set[str],
    scope: Scope,
    ahead: set[str],
    bearing: Set[str],
) -> Region | None:
    """The regions in front of a statement that has to stay where it is, and behind it."""
    last = in_block(module, learned, blocks[1], wanted, scope, ahead)
    if not isinstance(last, Region):
        return None
    first = in_block(module, learned, blocks[0], wanted.union(last.inputs) & ahead, scope, bearing)
    if not isinstance(first, Region):
        return None
    return _joined(first, last)


def _joined(first: Region, last: Region) -> Region:
    """A region that another one leads to, with all that come before."""
    return replace(last, earlier=(*last.earlier, replace(first, earlier=()), *first.earlier))


def _is_repeated(statement: ast.stmt, scope: Scope) -> bool:
    """Whether a statement stands in a loop of its function."""
    return any(
        isinstance(loop, LOOPS) and any(inner is statement for inner in ast.walk(loop))
        for loop in ast.walk(around(scope))
    )


def _core(
    learned: Learned,
    block: list[ast.stmt],
    found: list[Effects],
    wanted: set[str],
    scope: Scope,
    filled: frozenset[str],
    bearing: Set[str],
    *,
    reads_out: bool,
) -> list[int]:
    """Where the statements stand that the wanted places depend on, and that depend on modules.

    `filled` is what calls of modules fill, `bearing` what bears gradients before, `reads_out` says whether
    those are among them of which only what is read out of tensors is needed.
    """
    needed, chosen, kept = set(wanted), dict[int, set[str]](), dict[int, set[int]]()
    for i in reversed(range(len(block))):
        if found[i].touched & needed:
            chosen[i], kept[i] = found[i].touched & needed, _kept(learned, block[i], needed, scope)
            if is_unconditional(block[i]):
                needed -= set(found[i].writes)
            if not learned.is_settled(block[i], scope):
                needed |= _read_apart(found[i], kept[i])
    order = sorted(chosen)
    learning = any(learned.within(block[i], scope) for i in order)
    made = set[str]().union(*(found[i].touched for i in order if makes_leaf(block[i])))
    through = learned.leaves(scope) - made | bearing
    if not learning:
        through |= learned.handed_on(block[0], scope)
    core: list[int] = []
    for i in order:
        if isinstance(block[i], FunctionNode) or _makes_modules(learned, block[i], chosen[i], scope):
            continue  # what it computes is computed where it is called
        if makes_leaf(block[i]):
            through |= found[i].touched
        elif learned.is_settled(block[i], scope):
            through |= learned.given(block[i], scope)
        elif (
            kept[i]
            and not learned.within(block[i], scope, kept[i])
            and through.isdisjoint(_read_apart(found[i], kept[i]))
        ):
            through |= found[i].touched
        elif (
            not through.isdisjoint(found[i].reads)
            or learned.within(block[i], scope)
            or (learning and learned.goes_through_parameters(block[i], scope))
            or learned.reads_parameters(block[i], scope)
        ):
            bearing = bearing_behind(learned, [block[i]], through, scope, filled) | (
                filled & found[i].changes
            )
            if reads_out or not bearing.isdisjoint(chosen[i]):
                core.append(i)
                through |= found[i].touched
            else:
                through -= chosen[i]
        elif is_unconditional(block[i]):
            through -= set(found[i].writes)
    return core


def _makes_modules(learned: Learned, statement: ast.stmt, chosen: set[str], scope: Scope) -> bool:
    """Whether all that is needed of a statement is modules, as of one that takes a step of a copy."""
    written = effects([statement]).writes if isinstance(statement, ast.Assign) else {}
    return all(name in written and learned.is_surely_module(written[name][0], scope) for name in chosen)


def _kept(learned: Learned, statement: ast.stmt, needed: set[str], scope: Scope) -> set[int]:
    """The `id`s of what a statement gives to, and takes out of, objects that keep it, and those of these."""
    kept = learned.kept(statement, scope)
    if kept and not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr):
        found = effects([statement])
        nodes = [found.reads.get(name) for name in found.touched & needed]
        if all(one and kept.issuperset(map(id, one)) for one in nodes):
            return {id(node) for node in ast.walk(statement)}
    return kept


def _read_apart(found: Effects, kept: Set[int]) -> set[str]:
    """The places that a statement reads elsewhere than in nodes with these `id`s."""
    return {name for name, nodes in found.reads.items() if any(id(node) not in kept for node in nodes)}


def _sorted_out(
    block: list[ast.stmt], found: list[Effects], core: list[int]
) -> tuple[tuple[ast.stmt, ...], tuple[ast.stmt, ...]] | Obstacle:
    """The statements between those of the core that can run ahead of it, and those that can run behind."""
    ahead, behind = [], []
    late: set[str] = set()
    for i in range(core[0] + 1, core[-1]):
        if i in core:
            continue
        earlier = [found[j] for j in core if j < i]
        later = [found[j] for j in core if j > i]
        reads, touched = set(found[i].reads), found[i].touched
        if reads & (_all_touched(earlier) | late):
            clash = touched & _all_used(later) or reads & _all_touched(later)
            late |= touched
            behind.append(block[i])
        else:
            clash = touched & (_all_used(earlier) | late)
            ahead.append(block[i])
        why = ending(block[i])
        if why is not None and (block[i] in behind or any(one.changes for one in earlier)):
            return Obstacle(block[i], why)
        if "self" in reads and any(name.startswith("self.") for name in _all_touched(earlier)):
            return Obstacle(block[i], "passes `self` to other code before the loss is computed")
        if clash:
            names = ", ".join(f"`{name}`" for name in sorted(clash))
            return Obstacle(block[i], f"changes {names} before the loss is computed")
    return tuple(ahead), tuple(behind)


def _begun(
    block: list[ast.stmt],
    found: list[Effects],
    core: list[int],
    sorted_out: tuple[tuple[ast.stmt, ...], tuple[ast.stmt, ...]],
) -> tuple[list[int], tuple[tuple[ast.stmt, ...], tuple[ast.stmt, ...]]]:
    """The core with what begins a sum or a list that it goes on with, within it or right ahead."""
    for i in reversed(range(core[-1])):
        if i in core:
            continue
        if i < core[0] - 1:
            break
        if not begins(block[i]) or not found[i].touched <= _all_touched([found[j] for j in core if j > i]):
            continue
        wider = sorted({*core, i})
        wider_out = _sorted_out(block, found, wider)
        if not isinstance(wider_out, Obstacle):
            core, sorted_out = wider, wider_out
    return core, sorted_out


def _drawn_apart(
    module: TypedFile,
    learned: Learned,
    block: list[ast.stmt],
    core: list[int],
    sorted_out: tuple[tuple[ast.stmt, ...], tuple[ast.stmt, ...]],
    scope: Scope,
) -> int | None:
    """Where a statement stands that would draw other numbers if it ran ahead of the core, or behind it."""
    for places, is_ahead in zip(sorted_out, (True, False), strict=True):
        for statement in filter(only_computes, places):
            drawn = draws(module, [statement], scope)
            index = next(i for i, s in enumerate(block) if s is statement)
            passed = [block[j] for j in core if (j < index) == is_ahead]
            # The two change places, too: what runs behind stood before it.
            passed += [s for s in sorted_out[1] if is_ahead and s.lineno < statement.lineno]
            if drawn and drawn & may_draw(module, learned, passed, scope):
                return index
    return None


def _all_touched(found: list[Effects]) -> set[str]:
    return {name for one in found for name in one.touched}


def _all_used(found: list[Effects]) -> set[str]:
    return _all_touched(found) | {name for one in found for name in one.reads}
