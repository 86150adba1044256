"""Lists that are filled with what modules compute, and of which another function makes a loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tpulint.knowledge.tensors import READS
from tpulint.model.names.qualified import dotted
from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.effects import effects
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.model.training.boundaries import is_without_gradient
from tpulint.model.training.detached import gives_none_on, is_number, read_on
from tpulint.model.training.learned import Learned
from tpulint.model.values.pending import statements

_WITHOUT = READS | {"detach", "cpu"}


@dataclass(frozen=True, slots=True)
class Filling:
    """A list, such as `policy.log_probs` (`path`), what is appended to it, and in which function."""

    path: str
    value: ast.expr
    function: Scope


def fillings(module: ParsedFile, learned: Learned, scope: Scope) -> Iterator[Filling]:
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


def filled_here(module: ParsedFile, learned: Learned, path: str, scope: Scope) -> Iterator[Filling]:
    """What a function, or the script, appends with gradients to a list of its own."""
    function = scope.function or module.index.module
    for node, place in module.index.calls.get("append", ()):
        assert isinstance(node, ast.Call)
        if (place.function or module.index.module) is not function or len(node.args) != 1:
            continue
        is_filled = isinstance(node.func, ast.Attribute) and dotted(node.func.value) == path
        if is_filled and _has_gradient(module, learned, node.args[0], function):
            yield Filling(path, node.args[0], function)


def is_filled_by_jax(learned: Learned, filling: Filling) -> bool:
    """Whether only functions decorated with `@differentiable` compute the values in the list."""
    value, function = filling.value, filling.function
    given = [
        statement
        for statement in _own(function)
        if isinstance(statement, ast.Assign)
        and isinstance(value, ast.Name)
        and value.id in effects([statement]).writes
    ]
    return bool(given) and all(learned.is_settled(statement, function) for statement in given)


def _own(function: Scope) -> Iterator[ast.stmt]:
    """The statements of a function, or of a script outside of its functions."""
    body = getattr(function.node, "body", [])
    return statements(body) if isinstance(body, list) else iter(())


def _has_gradient(module: ParsedFile, learned: Learned, value: ast.expr, function: Scope) -> bool:
    """Whether what is appended comes from modules, and is neither detached nor a number."""
    bearing: set[str] = set()
    for statement in _own(function):
        if isinstance(statement, ast.Assign):
            computes = learned.within(statement.value, function) or learned.is_settled(statement, function)
            computes = computes or not bearing.isdisjoint(read_on(statement))
            if computes and not gives_none_on(statement.value) and not is_number(statement.value):
                bearing |= set(effects([statement]).writes)
    if any(isinstance(node, ast.Attribute) and node.attr in _WITHOUT for node in ast.walk(value)):
        return False
    if not learned.within(value, function) and bearing.isdisjoint(effects([value]).reads):
        return False
    return not is_without_gradient(module, module.statement(value), function)
