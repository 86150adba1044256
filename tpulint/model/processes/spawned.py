"""Functions that are started in several processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.distributed import SPAWN, SPAWNED
from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.parsed_file import ParsedFile


def spawned(module: ParsedFile, call: ast.Call, scope: Scope) -> dict[str, ast.expr] | None:
    """Whether the call is `torch.multiprocessing.spawn`; its arguments by name, or None."""
    if module.names.qualified(call.func, scope) not in SPAWN:
        return None
    given = dict(zip(SPAWNED, call.args, strict=False))
    return given | {word.arg: word.value for word in call.keywords if word.arg in SPAWNED}


def is_number_of_processes(module: ParsedFile, call: ast.Call, scope: Scope) -> bool:
    """Whether the call computes the number of processes that `spawn` starts."""
    statement = module.parent(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = {ast.unparse(target) for target in targets}
    return any(
        number is call or (scope.function is place.function and ast.unparse(number) in names)
        for number, place in _numbers(module)
    )


def _numbers(module: ParsedFile) -> Iterator[tuple[ast.expr, Scope]]:
    for call, place in module.index.calls.get("spawn", ()):
        given = spawned(module, call, place) if isinstance(call, ast.Call) else None
        if given is not None and "nprocs" in given:
            yield given["nprocs"], place
