"""The process groups that a file starts."""

from __future__ import annotations

import ast

from tpulint.knowledge.distributed import ON_HOST, START
from tpulint.model.names.scopes import Scope
from tpulint.model.processes.settings import settings
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.syntax.parsed_file import ParsedFile

_STARTS = (START, START.replace(".init", ".distributed_c10d.init"))


def is_start(module: ParsedFile, call: ast.Call, scope: Scope) -> bool:
    """Whether the call starts a process group."""
    return module.names.qualified(call.func, scope) in _STARTS


def backend(call: ast.Call) -> ast.expr | None:
    """The backend that a call passes, if it passes one."""
    words = (word.value for word in call.keywords if word.arg == "backend")
    return call.args[0] if call.args else next(words, None)


def backends(module: ProjectFile, call: ast.Call, scope: Scope) -> frozenset[str | None]:
    """The backends that the process group may have on a TPU host; None for one that is not known."""
    asked = backend(call)
    return settings(module, asked, scope) if asked is not None else frozenset({None})


def serves_host(module: ProjectFile, call: ast.Call, scope: Scope) -> bool:
    """Whether the process group has a CPU backend (`gloo` or `mpi`) on a TPU host."""
    found = backends(module, call, scope)
    return bool(found) and found <= ON_HOST


def groups(module: ProjectFile) -> tuple[bool, ...]:
    """The process groups that a file starts: whether each serves the host."""
    return tuple(
        serves_host(module, call, scope)
        for call, scope in module.index.calls.get("init_process_group", ())
        if isinstance(call, ast.Call) and is_start(module, call, scope)
    )
