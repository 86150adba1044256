"""The computation of a loss within the function that gives it, where that does more than compute."""

from __future__ import annotations

import ast

from tpulint.knowledge.tensors import READS
from tpulint.model.names.references import method_around
from tpulint.model.names.scopes import Scope
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.training.called import is_differentiated, own_function
from tpulint.model.training.changing import Changing
from tpulint.model.training.regions import Region
from tpulint.model.values.pending import statements

#: What tells of numbers, on the terminal or in a log.
_TELLS = frozenset(
    {"print", "info", "debug", "warning", "add_scalar", "add_scalars", "set_postfix", "log_dict"}
)


def given_within(
    module: ProjectFile, changing: Changing, found: Region, scope: Scope
) -> tuple[ast.expr, Scope] | None:
    """What the one function of this file gives that a region calls, with its scope.

    None where the function may run once, while tracing, where it has several ends, and where another class
    has one in its place.
    """
    if len(found.statements) != 1 or found.earlier:
        return None
    value = found.statements[0].value if isinstance(found.statements[0], ast.Assign) else None
    own = own_function(module, value.func, scope) if isinstance(value, ast.Call) else None
    if own is None or not isinstance(own.node, ast.FunctionDef) or own.node.decorator_list:
        return None
    if is_differentiated(module, own) or _is_overridden(module, own):
        return None
    if changing.unsteady(found.statements, scope) is None and not _tells(own.node):
        return None
    ends = [one for one in statements(own.node.body) if isinstance(one, ast.Return)]
    last = own.node.body[-1]
    if len(ends) != 1 or not isinstance(last, ast.Return) or last.value is None:
        return None
    return last.value, own


def _is_overridden(module: ProjectFile, own: Scope) -> bool:
    method = method_around(own)
    if method is None or method.owner is None:
        return False
    return f"{module.name}.{method.owner.qualname}.{own.name}" in module.project.overridden


def _tells(function: ast.FunctionDef) -> bool:
    """Whether a function reads numbers out of tensors, or tells something."""
    return any(
        isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Attribute) and node.func.attr in READS | _TELLS)
            or (isinstance(node.func, ast.Name) and node.func.id in _TELLS)
        )
        for node in ast.walk(function)
    )
