"""The function of a file that a callee means, and the marks that functions have."""

from __future__ import annotations

import ast

from tpulint.knowledge.runtime import DIFFERENTIABLE, is_runtime_function
from tpulint.model.names.qualified import dotted
from tpulint.model.names.references import method_around
from tpulint.model.names.scopes import Scope
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.source import decorators


def own_function(module: ProjectFile, function: ast.expr, scope: Scope) -> Scope | None:
    """The function of this file that is called by a plain name or as a method of `self`."""
    node: ast.AST | None = None
    if isinstance(function, ast.Name):
        found = module.names.lookup(function.id, scope)
        nodes = [binding.node for binding in found[1]] if found is not None else []
        node = nodes[0] if len(nodes) == 1 else None
    elif isinstance(function, ast.Attribute) and dotted(function.value) == "self":
        method = method_around(scope)
        if method is not None and method.owner is not None:
            name = module.project.method(f"{module.name}.{method.owner.qualname}", function.attr)
            return module.functions.get(name) if name is not None else None
    return module.index.function(node) if node is not None else None


def is_differentiated(module: ParsedFile, function: Scope) -> bool:
    """Whether the function is decorated with `@differentiable`."""
    return is_decorated(module, function, DIFFERENTIABLE)


def is_decorated(module: ParsedFile, function: Scope, decorator: str) -> bool:
    """Whether the function has a decorator of the runtime, such as `knowledge.runtime.DIFFERENTIABLE`."""
    for node in decorators(function.node):
        named = node.func if isinstance(node, ast.Call) else node
        if is_runtime_function(module.names.qualified(named, function.parent or function), decorator):
            return True
    return False
