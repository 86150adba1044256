"""Environment variables that code sets."""

from __future__ import annotations

import ast
from typing import NamedTuple

from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.parsed_file import ParsedFile

_SETTERS = frozenset({"os.environ.setdefault", "os.putenv"})


class VariableWrite(NamedTuple):
    """The value that code gives an environment variable, and the statement if it does nothing else."""

    value: ast.expr
    statement: ast.stmt | None


def variable_write(module: ParsedFile, name: ast.expr, scope: Scope) -> VariableWrite | None:
    """How code sets the environment variable with this name, a string or a keyword's value.

    The name may be the key of `os.environ[...] = value`, also of a copy of `os.environ`, or of a dictionary,
    or the argument of `setdefault`, `putenv` or pytest's `setenv`.
    """
    outer, statement = module.parent(name), module.statement(name)
    match outer:
        case ast.Subscript() if _is_environment(module, outer.value, scope):
            if isinstance(statement, ast.Assign) and outer in statement.targets:
                return VariableWrite(statement.value, statement if len(statement.targets) == 1 else None)
        case ast.Call(args=[first, value, *_]) if first is name:
            called = module.names.qualified(outer.func, scope)
            if called in _SETTERS or (isinstance(outer.func, ast.Attribute) and outer.func.attr == "setenv"):
                alone = isinstance(statement, ast.Expr) and statement.value is outer
                return VariableWrite(value, statement if alone else None)
        case ast.Dict() if name in outer.keys:
            return VariableWrite(outer.values[outer.keys.index(name)], None)
    return None


def _is_environment(module: ParsedFile, owner: ast.expr, scope: Scope) -> bool:
    """Whether a mapping is `os.environ`, or a variable with a copy of it."""
    if module.names.qualified(owner, scope) == "os.environ":
        return True
    found = module.names.lookup(owner.id, scope) if isinstance(owner, ast.Name) else None
    values = (binding.value for binding in found[1]) if found is not None else ()
    return any(
        isinstance(part, ast.Attribute) and module.names.qualified(part, scope) == "os.environ"
        for value in values
        if value is not None
        for part in ast.walk(value)
    )
