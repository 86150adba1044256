"""The process groups that a file starts."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tpulint.knowledge.distributed import START

if TYPE_CHECKING:
    from tpulint.model.module import Module
    from tpulint.model.names.scopes import Scope

_STARTS = (START, START.replace(".init", ".distributed_c10d.init"))
_ON_HOST = ("gloo", "mpi")


def is_start(module: Module, call: ast.Call, scope: Scope) -> bool:
    """Whether the call starts a process group."""
    return module.names.qualified(call.func, scope) in _STARTS


def backend(call: ast.Call) -> ast.expr | None:
    """The backend that a call passes, if it passes one."""
    words = (word.value for word in call.keywords if word.arg == "backend")
    return call.args[0] if call.args else next(words, None)


def serves_host(module: Module, call: ast.Call, scope: Scope) -> bool:
    """Whether the process group has a CPU backend (`gloo` or `mpi`), at least without CUDA."""
    asked = backend(call)
    values = [asked]
    if isinstance(asked, ast.Name):
        found = module.names.lookup(asked.id, scope)
        values += [binding.value for binding in found[1]] if found is not None else []
    for value in values:
        parts = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
        if any(isinstance(part, ast.Constant) and part.value in _ON_HOST for part in parts):
            return True
    return False


def groups(module: Module) -> tuple[bool, ...]:
    """The process groups that a file starts: whether each serves the host."""
    return tuple(
        serves_host(module, call, scope)
        for call, scope in module.index.calls.get("init_process_group", ())
        if isinstance(call, ast.Call) and is_start(module, call, scope)
    )
