"""Exception handlers around code, and imports that may fail."""

from __future__ import annotations

import ast

from tpulint.model.names.scopes import FunctionNode, Scope
from tpulint.model.syntax.entry import is_main
from tpulint.model.syntax.parsed_file import ParsedFile

#: Statements that leave their block.
LEAVES = ast.Return | ast.Raise | ast.Continue | ast.Break
_BROAD = frozenset(
    {
        "builtins.Exception",
        "builtins.BaseException",
        "builtins.RuntimeError",
        "builtins.AssertionError",
        "builtins.AttributeError",
    }
)
_NOT_IMPORTED = frozenset({"builtins.ImportError", "builtins.ModuleNotFoundError"})


def caught(module: ParsedFile, node: ast.AST, scope: Scope) -> bool:
    """Whether what a node raises is caught right there, by a handler of broad or matching exceptions."""
    inner = node
    for outer in module.ancestors(node):
        if isinstance(outer, ast.Try | ast.TryStar) and holds(outer.body, inner):
            for handler in outer.handlers:
                types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
                names = (module.names.qualified(item, scope) if item else None for item in types)
                if handler.type is None or any(name in _BROAD for name in names):
                    return True
        if isinstance(outer, FunctionNode):
            return False
        inner = outer
    return False


def optional(module: ParsedFile, statement: ast.stmt, scope: Scope) -> bool:
    """Whether an import may fail, or may not be come to at all, and the code goes on without it."""
    inner: ast.AST = statement
    for outer in module.ancestors(statement):
        if isinstance(outer, ast.ExceptHandler):
            return True  # it is itself what the code goes on with
        if isinstance(outer, ast.Try | ast.TryStar) and holds(outer.body, inner):
            if any(_goes_on(module, handler, scope) for handler in outer.handlers):
                return True
        elif isinstance(outer, ast.If) and not is_main(outer.test):
            return True
        if isinstance(inner, ast.stmt) and any(_leaves_for_want(before) for before in module.before(inner)):
            return True
        inner = outer
    return False


def _goes_on(module: ParsedFile, handler: ast.ExceptHandler, scope: Scope) -> bool:
    """Whether a handler takes a failed import and does not raise in its turn."""
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = [module.names.qualified(item, scope) if item else None for item in types]
    taken = handler.type is None or any(name in _BROAD or name in _NOT_IMPORTED for name in names)
    return taken and not isinstance(handler.body[-1], ast.Raise)


def _leaves_for_want(statement: ast.stmt) -> bool:
    """Whether a statement leaves the block where something is not available, going by its words."""
    if not isinstance(statement, ast.If) or not isinstance(statement.body[-1], LEAVES):
        return False
    words = (
        part.attr if isinstance(part, ast.Attribute) else part.id if isinstance(part, ast.Name) else ""
        for part in ast.walk(statement.test)
    )
    return any("available" in word.lower() or "installed" in word.lower() for word in words)


def holds(block: list[ast.stmt] | ast.expr, node: ast.AST) -> bool:
    """Whether a node is one of the statements of a block, or is the expression itself."""
    return any(item is node for item in block) if isinstance(block, list) else block is node
