"""Of which generators statements draw random numbers on the host: those of one are to be drawn in order."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tpulint.model.names.scopes import Scope
from tpulint.model.training.learned import own_function
from tpulint.model.values.kinds import Instance

if TYPE_CHECKING:
    from tpulint.model.module import Module

_TORCH = frozenset(
    f"torch.{name}" for name in ("bernoulli", "multinomial", "normal", "rand", "randint", "randn", "randperm")
)
_FILLING = frozenset({"bernoulli_", "exponential_", "normal_", "random_", "uniform_"})
_LIBRARIES = ("numpy.random", "random")


def draws(module: Module, statements: Iterable[ast.AST], scope: Scope) -> set[str]:
    """The generators that statements draw from, and the functions of this file that they call."""
    found, seen = set[str](), set[int]()
    waiting = [(statement, scope) for statement in statements]
    while waiting:
        outer, place = waiting.pop()
        for node in ast.walk(outer):
            if not isinstance(node, ast.Call):
                continue
            found |= _drawn(module, node, place)
            called = _called(module, node, place)
            if called is not None and id(called) not in seen:
                seen.add(id(called))
                waiting.append((called.node, called))
    return found


def _drawn(module: Module, call: ast.Call, scope: Scope) -> set[str]:
    if any(word.arg in ("generator", "device") for word in call.keywords):
        return set()
    name = module.names.qualified(call.func, scope) or ""
    if name in _TORCH or (isinstance(call.func, ast.Attribute) and call.func.attr in _FILLING):
        return {"torch"}
    return {library for library in _LIBRARIES if name.startswith(f"{library}.")}


def _called(module: Module, call: ast.Call, scope: Scope) -> Scope | None:
    """The function of this file that a call runs, be it what a module computes."""
    own = own_function(module, call.func, scope)
    if own is not None:
        return own
    kind = module.kind(call.func, scope)
    name = module.project.method(kind.cls, "forward") if isinstance(kind, Instance) else None
    return module.functions.get(name) if name is not None else None
