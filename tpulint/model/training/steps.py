"""A training step: what computes the loss on which `backward` is called, and how to make functions of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from tpulint.finding import Span
from tpulint.knowledge.training import DIFFERENTIABLE
from tpulint.model.references import method_around
from tpulint.model.scopes import Scope
from tpulint.model.training.changing import changing_attributes, unsteady
from tpulint.model.training.effects import effects, place
from tpulint.model.training.extraction import extraction
from tpulint.model.training.learned import Learned, own_function
from tpulint.model.training.regions import Obstacle, Region, carriers, region

if TYPE_CHECKING:
    from tpulint.model.module import Module

#: What may be done with a loss on its way to `backward` that torch's autograd sees through on torchax.
_PLAIN = frozenset({"mean", "sum"})


@dataclass(frozen=True, slots=True)
class Moved:
    """A function to insert at an offset, and what takes the place of the lines that it is made of."""

    offset: int
    definition: str
    span: Span
    call: str


class Step:
    """The computation of one loss.

    Args:
        module: the file.
        loss: the expression on which `backward` is called.
        statement: where it is called.
        scope: the scope of that place.
    """

    def __init__(self, module: Module, loss: ast.expr, statement: ast.stmt, scope: Scope) -> None:
        self._module, self._loss, self._statement, self._scope = module, loss, statement, scope
        self._names: set[str] = set()
        self._is_known = True
        self.region = self._found(generous=False)
        self._is_settled = self.region is None and self._calls_settled()
        if self.region is None and not self._is_settled:
            self._is_known = False
            self.region = self._found(generous=True)

    def _found(self, *, generous: bool) -> Region | Obstacle | None:
        self._learned = Learned(self._module, self._settles, generous=generous)
        wanted = set(effects([self._loss]).reads)
        return region(self._module, self._learned, self._statement, wanted, self._scope)

    def _settles(self, function: Scope) -> bool:
        """Whether a function is one that JAX differentiates."""
        node, outer = function.node, function.parent
        for decorator in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            named = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = self._module.names.qualified(named, outer or function) or ""
            if name == DIFFERENTIABLE or name.endswith(f".{DIFFERENTIABLE}"):
                return True
        return False

    def _calls_settled(self) -> bool:
        around: ast.AST = (self._scope.function or self._module.index.module).node
        return any(
            isinstance(node, ast.Call)
            and (own := own_function(self._module, node.func, self._scope)) is not None
            and self._settles(own)
            for node in ast.walk(around)
        )

    @property
    def is_plain(self) -> bool:
        """Whether `backward` is called on a variable, or on simple arithmetic with variables and numbers."""
        return _is_plain(self._loss) or self._learned.is_handed_on(self._loss, self._scope)

    @property
    def is_settled(self) -> bool:
        """Whether the loss comes from functions that JAX differentiates, and nothing much is done to it."""
        return self.is_plain and self._is_settled

    def fresh(self, name: str) -> str:
        """A name like this one that the file does not use."""
        taken = {function.name for function in self._module.index.functions} | self._names
        taken |= {node.id for node in ast.walk(self._module.source.tree) if isinstance(node, ast.Name)}
        found = next(one for one in _alike(name) if one not in taken)
        self._names.add(found)
        return found

    def moved(self, others: list[ast.stmt]) -> list[Moved] | str:
        """The functions that take the computation in, or why there are none.

        `others` are the statements that compute other losses.
        """
        found = self.region
        if found is None:
            return "the loss is not computed here"
        if isinstance(found, Obstacle):
            return f"{found.why} (line {found.node.lineno})"
        parts = [(found, self._scope)]
        parts += carriers(self._module, self._learned, found.inputs, [*others, *found.span], self._scope)
        made = [self._function(part, scope) for part, scope in parts]
        result = [one for one in made if one is not None]
        return result if len(result) == len(made) else "statements share a line"

    def _function(self, found: Region, scope: Scope) -> Moved | None:
        module = self._module
        changing = changing_attributes(module, scope)
        kept = {p for p in found.inputs if p.startswith("self.") and p not in changing} - set(found.outputs)
        reads_self = bool(kept) or "self" in found.inputs
        method = method_around(scope)
        is_method = reads_self and method is not None
        parameters = {"self": "self"} if reads_self else {}
        parameters |= {
            name: name.removeprefix("self.") for name in found.inputs if name not in kept and name != "self"
        }
        results = {name: name.removeprefix("self.") for name in found.outputs}
        if not results:
            return None
        why = unsteady(module, found.statements, scope) if self._is_known else "what it calls is not known"
        decorator = "differentiable" if why is None else f"differentiable(compiled=False)  # {why}"
        losses = (results[name] for name in effects([self._loss]).reads if name in results)
        name = self.fresh(f"compute_{next(losses, next(iter(results.values())))}")
        made = extraction(module, found, name, decorator, parameters, results, is_method=is_method)
        if made is None:
            return None
        around = method.node if is_method and method is not None else self._top_level(found.statements[0])
        newline = module.source.newline
        gap = newline if is_method else newline * 2
        return Moved(self._above(around), made.definition + gap, made.span, made.call)

    def _top_level(self, node: ast.stmt) -> ast.stmt:
        body = self._module.source.tree.body
        return next(s for s in body if s.lineno <= node.lineno <= (s.end_lineno or s.lineno))

    def _above(self, statement: ast.AST) -> int:
        """The offset of the line above which a definition goes: over decorators and comments."""
        source = self._module.source
        assert isinstance(statement, ast.stmt)
        row: int = min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", []))])
        while row > 1 and source.line(row - 1).lstrip().startswith("#"):
            row -= 1
        return source.line_starts[row - 1]


def _alike(name: str) -> Iterator[str]:
    """A name, and others like it."""
    yield name
    for number in count(2):
        yield f"{name}_{number}"


def _is_plain(loss: ast.expr) -> bool:
    match loss:
        case ast.Name() | ast.Constant():
            return True
        case ast.Attribute():
            return place(loss) is not None
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
            return _is_plain(loss.left) and _is_plain(loss.right)
        case ast.Call(func=ast.Attribute(value=value, attr=attr), args=[]) if attr in _PLAIN:
            return _is_plain(value)
        case ast.Call(func=ast.Attribute(attr="scale"), args=[value]):
            return _is_plain(value)
        case _:
            return False
