"""Questions about syntax alone, which need no context.

They may serve as conditions where a rule registers its handlers, too, as in
`rule.on(ast.Constant, named=starts_cuda)`.
"""

from __future__ import annotations

import ast

from tpulint.model.devices.literals import is_cuda_location, is_cuda_string, is_formatted_cuda, starts_cuda
from tpulint.model.names.qualified import dotted
from tpulint.model.names.references import by_name as arguments_by_name
from tpulint.model.names.references import positional as positional_parameters
from tpulint.model.names.scopes import parameters
from tpulint.model.syntax.effects import effects
from tpulint.model.syntax.entry import is_main
from tpulint.model.syntax.loops import calls_looped_over
from tpulint.model.values.pending import statements
from tpulint.model.values.uses import loads

__all__ = [
    "arguments_by_name",
    "calls_looped_over",
    "dotted",
    "effects",
    "imports_package",
    "is_cuda_location",
    "is_cuda_string",
    "is_formatted_cuda",
    "is_main",
    "is_name",
    "loads",
    "parameters",
    "positional_parameters",
    "starts_cuda",
    "statements",
]


def imports_package(node: ast.Import | ast.ImportFrom, package: str) -> bool:
    """Whether an import statement imports a package, modules of it, or names from these."""
    if isinstance(node, ast.ImportFrom):
        return not node.level and (node.module or "").partition(".")[0] == package
    return any(alias.name.partition(".")[0] == package for alias in node.names)


def is_name(node: ast.AST, name: str) -> bool:
    """True if the node is this plain name."""
    return isinstance(node, ast.Name) and node.id == name
