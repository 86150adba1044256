"""The function of a file that a callee means, and the marks that functions have."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tpulint.knowledge.training import DIFFERENTIABLE, is_mark
from tpulint.model.names.qualified import dotted
from tpulint.model.names.references import method_around
from tpulint.model.names.scopes import Scope
from tpulint.source import decorators

if TYPE_CHECKING:
    from tpulint.model.module import Module


def own_function(module: Module, function: ast.expr, scope: Scope) -> Scope | None:
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


def is_differentiated(module: Module, function: Scope) -> bool:
    """Whether the function is decorated with `@differentiable`."""
    return is_marked(module, function, DIFFERENTIABLE)


def is_marked(module: Module, function: Scope, mark: str) -> bool:
    """Whether the function has a decorator of the runtime, such as `@differentiable` or `@recorded`.

    `mark` is that decorator. The runtime may lie in any package.
    """
    for decorator in decorators(function.node):
        named = decorator.func if isinstance(decorator, ast.Call) else decorator
        if is_mark(module.names.qualified(named, function.parent or function), mark):
            return True
    return False
