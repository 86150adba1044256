"""What hooks fill when a module is called, such as a dictionary of features."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.model.names.scopes import Scope
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.syntax.effects import effects, root
from tpulint.model.training.called import own_function
from tpulint.model.values.kinds import Instance
from tpulint.model.values.readers import registered_hooks
from tpulint.model.values.typed_file import TypedFile


def filled_by_hooks(module: TypedFile, scope: Scope) -> frozenset[str]:
    """The places, read in a function, that calls of modules may fill through hooks."""
    found: set[str] = set()
    classes: set[str] = set()
    for hook, at, owner in registered_hooks(module):
        if _is_of_self(hook) and owner is not None:
            classes.add(owner)
        for body in _bodies(module, hook, at):
            found |= _changed(body)
    if classes:
        for read in ast.walk((scope.function or module.index.module).node):
            if isinstance(read, ast.Name) and isinstance(read.ctx, ast.Load) and read.id not in found:
                kind = module.kind(read, scope)
                if isinstance(kind, Instance) and kind.cls in classes:
                    found.add(read.id)
    return frozenset(found)


def _is_of_self(hook: ast.expr) -> bool:
    """Whether a hook is a method of the object that registers it, or made by one."""
    hook = hook.func if isinstance(hook, ast.Call) else hook
    return isinstance(hook, ast.Attribute) and isinstance(hook.value, ast.Name) and hook.value.id == "self"


def _bodies(module: ProjectFile, hook: ast.expr, scope: Scope) -> Iterator[list[ast.AST]]:
    """What a hook executes: a function, the functions within one that makes it, or a lambda."""
    if isinstance(hook, ast.Lambda):
        yield [hook.body]
        return
    made = own_function(module, hook.func if isinstance(hook, ast.Call) else hook, scope)
    if made is not None and isinstance(made.node, ast.FunctionDef):
        yield list(made.node.body)


def _changed(body: list[ast.AST]) -> set[str]:
    """The places that a hook puts something into."""
    found = set[str]()
    for outer in body:
        for node in ast.walk(outer):
            if isinstance(node, ast.stmt):
                found |= effects([node]).changes
                found |= {name for name in effects([node]).writes if name.startswith("self.")}
        if isinstance(outer, ast.Call) and isinstance(outer.func, ast.Attribute):
            name = root(outer.func.value)
            found |= {name} if name is not None else set()
    return found
