"""A training step: what computes the loss on which `backward` is called, and how to make functions of it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cached_property
from itertools import chain

from tpulint.model.names.numbered import numbered
from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.effects import effects
from tpulint.model.training.behind import kept_behind
from tpulint.model.training.boundaries import asks, is_without_gradient
from tpulint.model.training.carriers import carriers
from tpulint.model.training.changing import Changing
from tpulint.model.training.collected import Filling, fillings, is_filled_by_jax
from tpulint.model.training.handing import Handing
from tpulint.model.training.kept import is_kept_by_marked, keeping, left_by_others
from tpulint.model.training.learned import Learned
from tpulint.model.training.losses import Handed, backward_calls, is_plain, loops_around
from tpulint.model.training.placing import placed
from tpulint.model.training.regions import Obstacle, Region, next_rounds, region
from tpulint.model.training.sharing import put_apart
from tpulint.model.training.within import given_within
from tpulint.model.values.typed_file import TypedFile
from tpulint.plan import Rewrite

NOT_FOUND = (
    "tpulint finds no loss computation: decorate the function that computes the loss with `@differentiable` "
    "of the runtime `torchax_compat`"
)
SHARED_LINE = "statements of the loss computation share a line: write each statement on its own line"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Steps:
    """The training steps of one file; what is found out for one of them serves all."""

    def __init__(self, module: TypedFile) -> None:
        self.module = module
        self.learned = Learned(module)
        self.guessed = Learned(module, generous=True)
        self.changing = Changing(module)
        self.handing = Handing(module, self.learned)
        self._found: dict[int, Step] = {}
        self._claimed: dict[str, tuple[ast.stmt, ...]] = {}

    def of(self, loss: ast.expr, scope: Scope) -> Step:
        """The computation of the loss on which `backward` is called in a scope."""
        found = self._found.get(id(loss))
        if found is None:
            found = self._found[id(loss)] = Step(self, loss, scope)
        return found

    def asking(self, call: ast.Call, scope: Scope) -> Ending:
        """The computation of the gradients that a call asks for, outside of all functions."""
        return Ending(self, call, scope)

    @property
    def passed_losses(self) -> list[Handed]:
        """The calls that pass a loss to a function which calls `backward` on it."""
        return self.handing.handed

    @property
    def passed_lists(self) -> list[tuple[Handed, list[Filling]]]:
        """The calls that pass it a loss computed from lists, with the code that fills these lists."""
        return self.handing.listed

    def is_module(self, value: ast.expr, scope: Scope) -> bool:
        """Whether an expression is a module, by its type, its use or its name."""
        return self.learned.is_module(value, scope)

    def is_differentiable_call(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an expression is a call of a function that JAX differentiates already."""
        return self.learned.is_handed_on(node, scope)

    def why_not_compiled(self, statements: Iterable[ast.stmt], scope: Scope) -> str | None:
        """The reason for which `@differentiable` must not compile statements; None if it may."""
        return self.changing.unseen(statements, scope)

    def is_filled_by_jax(self, filling: Filling) -> bool:
        """Whether only functions decorated with `@differentiable` compute the values in the list."""
        return is_filled_by_jax(self.learned, filling)

    @cached_property
    def kept(self) -> list[tuple[ast.Assign, Scope, Ending]]:
        """The assignments that keep a loss on which others call `backward`, each with its computation."""
        return [one for one in self._keeping if isinstance(one[2].region, Region) and one[2].is_learned]

    @cached_property
    def _keeping(self) -> list[tuple[ast.Assign, Scope, Ending]]:
        return [(node, scope, Ending(self, node.value, scope)) for node, scope in keeping(self.module)]

    def is_kept(self, loss: ast.expr, scope: Scope) -> bool:
        """Whether another method assigns the loss to this attribute, and is reported or needs no change."""
        if is_kept_by_marked(self.module, loss, scope):
            return True
        settled = (one for one in self._keeping if one[2].is_settled)
        return left_by_others(loss, scope, (node for node, *_ in (*self.kept, *settled)))

    @cached_property
    def computing(self) -> frozenset[int]:
        """The `id`s of all statements that compute a loss."""
        handed = ((one.loss, one.scope) for one in self.handing.handed)
        steps = [self.of(loss, scope) for loss, scope in (*backward_calls(self.module), *handed)]
        return frozenset(number for step in steps for number in _numbers(step.regions))

    def name_for(self, region: Region, like: str, scope: Scope, taken: Collection[str] = ()) -> str:
        """The name of a new function for a loss computation, which no other one then has.

        Where another one has the name already, it says for which function of the file this one is:
        `compute_loss_in_validate`.
        """
        function = scope.function
        within = f"{like}_in_{function.name.strip('_')}" if function is not None else like
        names = chain((like,), numbered(within))
        return next(name for name in names if name not in taken and self._claim(name, region))

    def _claim(self, name: str, region: Region) -> bool:
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
        if self.region is None and not self._is_settled:
            self._learned = steps.learned
            self.region = self._of_given()

    def _of_given(self) -> Region | Obstacle | None:
        """What leads to the loss from parameters, which bear gradients where no module leads to it."""
        given = self._steps.handing.parameters(self._scope)
        if not given or any(fillings(self._module, self._learned, self._scope)):
            return None
        wanted = set(effects([self._loss]).reads)
        return region(self._module, self._learned, self._statement, wanted, self._scope, bearing=given)

    def _found(self) -> Region | Obstacle | None:
        wanted = set(effects([self._loss]).reads)
        for target, several in loops_around(self._module, self._loss):
            if wanted & set(effects([target]).writes):
                wanted |= set(effects([several]).reads)
        return region(self._module, self._learned, self._statement, wanted, self._scope)

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """All that leads to the loss: also what computes it for the next round of a loop."""
        found = self.region
        if not isinstance(found, Region):
            return ()
        again = next_rounds(self._module, self._learned, found, self._statement, self._scope)
        return tuple(one for last in (found, *again) for one in (last, *last.earlier))

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
        """Whether modules, or tensors with `requires_grad`, lead to the loss."""
        return self.region is not None or self._learned.within(self._loss, self._scope)

    @property
    def is_moved_once_named(self) -> bool:
        """Whether the computation of the loss can be moved once the loss has a name."""
        found = self.region is not None or bool(self._steps.handing.parameters(self._scope))
        kinds = (self._steps.learned, self._steps.guessed)
        return found or any(one.within(self._loss, self._scope) for one in kinds)

    @property
    def is_computed_here(self) -> bool:
        """Whether code here computes the loss with known modules."""
        found = isinstance(self.region, Region) and self.is_learned
        return found or self._steps.learned.within(self._loss, self._scope)

    @property
    def is_sure(self) -> bool:
        """Whether code here computes the loss with modules, and with gradients."""
        if isinstance(self.region, Region) and self.is_learned:
            first = self.region.statements[0]
        elif not isinstance(self._loss, ast.Name) and self._steps.learned.within(self._loss, self._scope):
            first = self._statement
        else:
            return False
        return not is_without_gradient(self._module, first, self._scope)

    @property
    def is_plain(self) -> bool:
        """Whether `backward` is called on a variable, or on simple arithmetic with variables and scalars."""
        return is_plain(self._loss) or self._learned.is_handed_on(self._loss, self._scope)

    @property
    def is_settled(self) -> bool:
        """Whether functions decorated with `@differentiable` compute the loss, up to simple arithmetic."""
        return self.is_plain and self._is_settled

    @cached_property
    def fillings(self) -> list[Filling]:
        """What other functions collect for the loss that JAX does not differentiate yet."""
        found = fillings(self._module, self._steps.learned, self._scope)
        return [one for one in found if not is_filled_by_jax(self._steps.learned, one)]

    @cached_property
    def is_collected(self) -> bool:
        """Whether the loss is computed from values that other functions collect, not by modules here."""
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

    @cached_property
    def _asking(self) -> Step | None:
        """The step further down that asks for gradients of what this one computes, and so is moved first."""
        own = self.region
        if not isinstance(own, Region) or asks(self._module, own.statements, self._scope):
            return None
        for loss, scope in backward_calls(self._module) if self._module.index.calls.get("grad") else ():
            other = self._steps.of(loss, scope)
            found = other.region
            if other is self or not isinstance(found, Region) or scope is not self._scope:
                continue
            shared = [statement for statement in found.statements if statement in own.statements]
            if shared and asks(self._module, found.statements, scope):
                return other
        return None

    @property
    def is_learned(self) -> bool:
        """Whether the computation of the loss is known, not guessed."""
        return self._learned is self._steps.learned

    def fresh(self, name: str) -> str:
        """A name like this one that the file does not use."""
        return next(one for one in numbered(name) if one not in self._steps.names)

    def moved(self) -> list[Rewrite] | str:
        """The rewrites that move the computation into functions, or why there are none."""
        if self.within is not None:
            return self.within.moved()
        asking = self._asking
        if asking is not None:
            return asking.moved()
        found = self.region
        if found is None:
            return NOT_FOUND
        if isinstance(found, Obstacle):
            remedy = "move that statement before or after the loss computation"
            return f"line {found.node.lineno} {found.why}: {remedy}"
        taken: set[str] = set()
        parts = sorted(self._parts(), key=lambda item: item[0].span[0].lineno)
        made = [self._function(part, scope, taken) for part, scope in parts]
        if any(one is None for one in made):
            return SHARED_LINE
        return [rewrite for one in made for rewrite in one or ()]

    def put_apart(self) -> list[Rewrite] | None:
        """What gives the statements that compute it rows of their own, if they share any with others."""
        if self.within is not None:
            return self.within.put_apart()
        if not isinstance(self.region, Region):
            return None
        statements = [one for part, _ in self._parts() for one in part.span]
        return put_apart(self._module, statements)

    def kept_behind(self) -> list[Rewrite]:
        """What takes statements that only keep numbers out of the blocks that compute it."""
        if self.within is not None:
            return self.within.kept_behind()
        statements = self.region.statements if isinstance(self.region, Region) else ()
        return kept_behind(self._module, statements, set(effects([self._loss]).reads))

    def _parts(self) -> list[tuple[Region, Scope]]:
        """What becomes functions, each with its scope."""
        parts = [(one, self._scope) for one in self.regions]
        taken = self._steps.computing | _numbers(self.regions)
        for one in self.regions:
            parts += carriers(self._module, self._learned, one, taken, self._scope)
        return list(_distinct(parts))

    def _function(self, found: Region, scope: Scope, taken: set[str]) -> list[Rewrite] | None:
        if not found.outputs:
            return None
        why: str | None = "calls functions that tpulint does not know"
        if self.is_learned:
            why = self._steps.changing.unseen(found.statements, scope)
        decorator = "differentiable" if why is None else f"differentiable(compiled=False)  # {why}"
        losses = (name for name in effects([self._loss]).reads if name in found.outputs)
        like = f"compute_{next(losses, found.outputs[0]).removeprefix('self.')}"
        name = self._steps.name_for(found, like, scope, taken)
        taken.add(name)
        return placed(self._module, self._steps.changing, found, scope, name, decorator)


class Ending(Step):
    """The computation that ends with a statement, as one that asks for gradients of outputs does."""

    def _found(self) -> Region | Obstacle | None:
        given = set(effects([self._statement]).writes)
        return region(self._module, self._learned, self._statement, given, self._scope, is_last=True)

    def _parts(self) -> list[tuple[Region, Scope]]:
        return [(one, self._scope) for one in self.regions]


def _numbers(regions: Iterable[Region]) -> frozenset[int]:
    """The `id`s of all statements of regions."""
    nodes = (node for one in regions for statement in one.span for node in ast.walk(statement))
    return frozenset(id(node) for node in nodes if isinstance(node, ast.stmt))


def _distinct(parts: list[tuple[Region, Scope]]) -> Iterable[tuple[Region, Scope]]:
    """Each region once, with all that it gives: several of those behind it may take that in."""
    found: dict[tuple[int, ...], tuple[Region, Scope]] = {}
    for part, scope in parts:
        known, _ = found.setdefault(tuple(map(id, part.statements)), (part, scope))
        inputs, outputs = dict.fromkeys((*known.inputs, *part.inputs)), (*known.outputs, *part.outputs)
        merged = replace(known, inputs=tuple(inputs), outputs=tuple(dict.fromkeys(outputs)))
        found[tuple(map(id, part.statements))] = merged, scope
    return found.values()
