"""A training step: what computes the loss on which `backward` is called, and how to make functions of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING

from tpulint.finding import Span
from tpulint.model.names.references import method_around
from tpulint.model.names.scopes import Scope
from tpulint.model.training.bound import binders, surely_read, surely_written
from tpulint.model.training.changing import Changing
from tpulint.model.training.collected import Filling, fillings, is_filled_by_jax
from tpulint.model.training.effects import effects
from tpulint.model.training.extraction import extraction
from tpulint.model.training.learned import Learned, own_function
from tpulint.model.training.losses import Handed, backward_calls, handed_losses, is_plain
from tpulint.model.training.regions import Obstacle, Region, carriers, is_without_gradient, region
from tpulint.model.training.within import given_within
from tpulint.source import first_row

if TYPE_CHECKING:
    from tpulint.model.module import Module


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Moved:
    """A function to insert at an offset, and what takes the place of the lines that it is made of.

    `bindings` are lines to insert at offsets, without which an argument of the call may not be bound.
    """

    offset: int
    definition: str
    span: Span
    call: str
    bindings: tuple[tuple[int, str], ...] = ()


class Steps:
    """The training steps of one file; what is found out for one of them serves all."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.learned = Learned(module)
        self.guessed = Learned(module, generous=True)
        self.changing = Changing(module)
        self._found: dict[int, Step] = {}
        self._claimed: dict[str, tuple[ast.stmt, ...]] = {}

    def of(self, loss: ast.expr, scope: Scope) -> Step:
        """The computation of the loss on which `backward` is called at a place."""
        found = self._found.get(id(loss))
        if found is None:
            found = self._found[id(loss)] = Step(self, loss, scope)
        return found

    @cached_property
    def handed(self) -> list[Handed]:
        """The calls that hand a loss to a function of the project which calls `backward` on it."""
        found = handed_losses(self.module)
        return [one for one in found if one.taker.is_whole or self._is_computed(one.loss, one.scope)]

    def _is_computed(self, value: ast.expr, scope: Scope) -> bool:
        """Whether a variable is bound to what modules compute."""
        found = self.module.names.lookup(value.id, scope) if isinstance(value, ast.Name) else None
        calls = (
            [one.value for one in found[1] if isinstance(one.value, ast.Call)] if found is not None else []
        )
        return any(
            self.learned.within(call, scope)
            and id(own_function(self.module, call.func, scope)) not in self._training
            for call in calls
        )

    @cached_property
    def _training(self) -> frozenset[int]:
        """The `id`s of the functions that call `backward`: what they give is trained, if anything."""
        return frozenset(id(at.function) for _, at in backward_calls(self.module) if at.function is not None)

    @cached_property
    def computing(self) -> frozenset[int]:
        """The `id`s of all statements that compute a loss."""
        handed = ((one.loss, one.scope) for one in self.handed)
        regions = [self.of(loss, scope).region for loss, scope in (*backward_calls(self.module), *handed)]
        return frozenset(
            id(node)
            for found in regions
            if isinstance(found, Region)
            for one in (found, *found.earlier)
            for statement in one.span
            for node in ast.walk(statement)
            if isinstance(node, ast.stmt)
        )

    def claim(self, name: str, region: Region) -> bool:
        """Whether the function for a region may have this name, which that of no other region then has."""
        return name not in self.names and self._claimed.setdefault(name, region.span) == region.span

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that the file uses."""
        functions = {function.name for function in self.module.index.functions}
        nodes = ast.walk(self.module.source.tree)
        return frozenset(functions | {node.id for node in nodes if isinstance(node, ast.Name)})


class Step:
    """The computation of one loss.

    Args:
        steps: those of its file.
        loss: the expression on which `backward` is called.
        scope: the scope of that place.
    """

    def __init__(self, steps: Steps, loss: ast.expr, scope: Scope) -> None:
        self._steps, self._module = steps, steps.module
        self._loss, self._scope = loss, scope
        self._statement = steps.module.statement(loss)
        self._learned = steps.learned
        self.region = self._found()
        self._is_settled = self.region is None and self._calls_settled()
        if self.region is None and not self._is_settled:
            self._learned = steps.guessed
            self.region = self._found()

    def _found(self) -> Region | Obstacle | None:
        wanted = set(effects([self._loss]).reads)
        return region(self._module, self._learned, self._statement, wanted, self._scope)

    def _calls_settled(self) -> bool:
        function = self._scope.function
        # What other functions of a script call is none of what stands outside of all of them.
        outside = (one for one in self._module.source.tree.body if not isinstance(one, _SCOPES))
        parts = [function.node] if function is not None else outside
        return any(
            isinstance(node, ast.Call) and self._learned.is_handed_on(node, self._scope)
            for part in parts
            for node in ast.walk(part)
        )

    @property
    def learns(self) -> bool:
        """Whether modules, or tensors that gradients are asked for, are seen to lead to the loss."""
        return self.region is not None or self._learned.within(self._loss, self._scope)

    @property
    def is_sure(self) -> bool:
        """Whether there are statements here that lead from modules to a variable, and that keep gradients."""
        found = self.region
        if not isinstance(found, Region) or not self.is_learned:
            return False
        return isinstance(self._loss, ast.Name) and not is_without_gradient(
            self._module, found.statements[0], self._scope
        )

    @property
    def is_plain(self) -> bool:
        """Whether `backward` is called on a variable, or on simple arithmetic with variables and numbers."""
        return is_plain(self._loss) or self._learned.is_handed_on(self._loss, self._scope)

    @property
    def is_settled(self) -> bool:
        """Whether the loss comes from functions that JAX differentiates, and nothing much is done to it."""
        return self.is_plain and self._is_settled

    @cached_property
    def fillings(self) -> list[Filling]:
        """What other functions collect for the loss that JAX does not differentiate yet."""
        found = fillings(self._module, self._steps.learned, self._scope)
        return [one for one in found if not is_filled_by_jax(self._steps.learned, one)]

    @cached_property
    def is_collected(self) -> bool:
        """Whether the loss is made of what other functions collect, not of what modules compute here."""
        if self.is_learned and self.region is not None:
            return False
        return any(fillings(self._module, self._steps.learned, self._scope))

    @cached_property
    def within(self) -> Step | None:
        """The computation within the function that gives the loss, if that alone can be compiled."""
        found = self.region
        if not isinstance(found, Region) or not self.is_learned:
            return None
        given = given_within(self._module, self._steps.changing, found, self._scope)
        inner = self._steps.of(*given) if given is not None else None
        if inner is None or given is None or not isinstance(inner.region, Region) or not inner.is_learned:
            return None
        statements = [s for one in (inner.region, *inner.region.earlier) for s in one.statements]
        is_steady = self._steps.changing.unsteady(statements, given[1]) is None
        return inner if is_steady or inner.within is not None else None

    @property
    def is_learned(self) -> bool:
        """Whether what leads to the loss is known, not guessed."""
        return self._learned is self._steps.learned

    def fresh(self, name: str) -> str:
        """A name like this one that the file does not use."""
        return next(one for one in _alike(name) if one not in self._steps.names)

    def moved(self) -> list[Moved] | str:
        """The functions that take the computation in, or why there are none."""
        if self.within is not None:
            return self.within.moved()
        found = self.region
        if found is None:
            return "the loss is not computed here"
        if isinstance(found, Obstacle):
            return f"{found.why} (line {found.node.lineno})"
        parts = [(one, self._scope) for one in (found, *found.earlier)]
        for one in (found, *found.earlier):
            parts += carriers(self._module, self._learned, one, self._steps.computing, self._scope)
        taken: set[str] = set()
        made = [self._function(part, scope, taken) for part, scope in parts]
        result = [one for one in made if one is not None]
        return result if len(result) == len(made) else "statements share a line"

    def _function(self, found: Region, scope: Scope, taken: set[str]) -> Moved | None:
        module = self._module
        changing = self._steps.changing.attributes(scope)
        kept = {p for p in found.inputs if p.startswith("self.") and p not in changing} - set(found.outputs)
        reads_self = bool(kept) or "self" in found.inputs
        method = method_around(scope)
        around = method.node if reads_self and method is not None else None
        parameters = {"self": "self"} if reads_self else {}
        parameters |= {
            name: name.removeprefix("self.") for name in found.inputs if name not in kept and name != "self"
        }
        results = {name: name.removeprefix("self.") for name in found.outputs}
        if not results:
            return None
        why: str | None = "what it calls is not known"
        if self.is_learned:
            why = self._steps.changing.unsteady(found.statements, scope)
        decorator = "differentiable" if why is None else f"differentiable(compiled=False)  # {why}"
        losses = (results[name] for name in effects([self._loss]).reads if name in results)
        like = f"compute_{next(losses, next(iter(results.values())))}"
        name = next(one for one in _alike(like) if one not in taken and self._steps.claim(one, found))
        taken.add(name)
        assert around is None or isinstance(around, ast.stmt)
        made = extraction(module, found, name, decorator, parameters, results, method=around)
        if made is None:
            return None
        newline = module.source.newline
        apart = 2 if around is None else 1
        above = self._above(around or self._top_level(found.statements[0]))
        lead, gap = newline * max(0, apart - self._blank(above)), newline * apart
        call, bindings = made.call, []
        for line, start, indent in self._unbound(found, scope):
            if start >= made.span.start:
                call = f"{indent}{line}{newline}{call}"
            else:
                bindings.append((start, f"{indent}{line}{newline}"))
        return Moved(above, lead + made.definition + gap, made.span, call, tuple(bindings))

    def _unbound(self, found: Region, scope: Scope) -> Iterator[tuple[str, int, str]]:
        """The line that binds each input that may not be bound, where it goes, and its indent."""
        source = self._module.source
        inputs = set(found.inputs) - surely_written(found.ahead) - surely_read(found.statements)
        for name, statement in binders(sorted(inputs), found.span[0], scope):
            start = source.line_starts[first_row(statement) - 1]
            yield f"{name} = None", start, source.text[start : source.span(statement).start].split("@")[0]

    def _top_level(self, node: ast.stmt) -> ast.stmt:
        body = self._module.source.tree.body
        return next(s for s in body if s.lineno <= node.lineno <= (s.end_lineno or s.lineno))

    def _above(self, statement: ast.stmt) -> int:
        """The offset of the line above which a definition goes: over decorators and comments."""
        source = self._module.source
        row = first_row(statement)
        while row > 1 and source.line(row - 1).lstrip().startswith("#"):
            row -= 1
        return source.line_starts[row - 1]

    def _blank(self, offset: int) -> int:
        """How many blank lines there are above a line."""
        lines = self._module.source.text[:offset].splitlines()
        return next((i for i, line in enumerate(reversed(lines)) if line.strip()), len(lines))


def _alike(name: str) -> Iterator[str]:
    """A name, and others like it."""
    yield name
    for number in count(2):
        yield f"{name}_{number}"
