"""Lists that one function fills with what modules compute, and another one makes a loss of."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpulint.knowledge.tensors import READS
from tpulint.model.names.qualified import dotted
from tpulint.model.names.scopes import Scope
from tpulint.model.training.effects import effects
from tpulint.model.training.regions import is_without_gradient

if TYPE_CHECKING:
    from tpulint.model.module import Module
    from tpulint.model.training.learned import Learned

_WITHOUT = READS | {"detach", "cpu"}


@dataclass(frozen=True, slots=True)
class Filling:
    """A list, such as `policy.log_probs`, what is appended to it, and the function that does."""

    path: str
    value: ast.expr
    function: Scope


def fillings(module: Module, learned: Learned, scope: Scope) -> Iterator[Filling]:
    """What other functions append, with gradients, to the lists in attributes that a function reads."""
    reader = scope.function
    if reader is None:
        return
    read = {dotted(node) for node in ast.walk(reader.node) if isinstance(node, ast.Attribute)}
    for node, place in module.index.calls.get("append", ()):
        assert isinstance(node, ast.Call)
        path = dotted(node.func.value) if isinstance(node.func, ast.Attribute) else None
        function = place.function
        if path is None or path not in read or "." not in path or function is None or function is reader:
            continue
        if len(node.args) == 1 and _has_gradient(module, learned, node.args[0], function):
            yield Filling(path, node.args[0], function)


def is_filled_by_jax(learned: Learned, filling: Filling) -> bool:
    """Whether what is appended comes from functions that JAX differentiates, and nothing else."""
    value, function = filling.value, filling.function
    given = [
        statement
        for statement in ast.walk(function.node)
        if isinstance(statement, ast.Assign)
        and isinstance(value, ast.Name)
        and value.id in effects([statement]).writes
    ]
    return bool(given) and all(learned.is_settled(statement, function) for statement in given)


def _has_gradient(module: Module, learned: Learned, value: ast.expr, function: Scope) -> bool:
    """Whether what is appended comes from modules, and is neither detached nor a number."""
    bearing: set[str] = set()
    for statement in ast.walk(function.node):
        if isinstance(statement, ast.Assign):
            computes = learned.within(statement.value, function) or learned.is_settled(statement, function)
            if computes or not bearing.isdisjoint(effects([statement.value]).reads):
                bearing |= set(effects([statement]).writes)
    if any(isinstance(node, ast.Attribute) and node.attr in _WITHOUT for node in ast.walk(value)):
        return False
    if not learned.within(value, function) and bearing.isdisjoint(effects([value]).reads):
        return False
    return not is_without_gradient(module, module.statement(value), function)
