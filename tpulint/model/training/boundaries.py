"""Where gradients are used, asked for, and not taken; and the blocks around a statement."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tpulint.model.names.scopes import FunctionNode, Scope
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.model.training.called import own_function


def keeps_graph(statement: ast.stmt) -> bool:
    """Whether a statement is `loss.backward(retain_graph=True)`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "backward"
        and any(word.arg in ("retain_graph", "create_graph") for word in call.keywords)
    )


def asks(module: ProjectFile, statements: Iterable[ast.stmt], scope: Scope) -> bool:
    """Whether statements, or the functions of the file that they call, ask for gradients."""
    if not module.index.calls.get("grad"):
        return False
    calls = [node for outer in statements for node in ast.walk(outer) if isinstance(node, ast.Call)]
    own = {id(own_function(module, call.func, scope)) for call in calls}
    return any(
        isinstance(call, ast.Call)
        and (any(call is one for one in calls) or id(place.function) in own)
        and module.names.qualified(call.func, place) == "torch.autograd.grad"
        for call, place in module.index.calls["grad"]
    )


def is_without_gradient(module: ParsedFile, statement: ast.stmt, scope: Scope) -> bool:
    """Whether a statement runs within `torch.no_grad()` or the like."""
    for node in module.ancestors(statement):
        contexts = [item.context_expr for item in node.items] if isinstance(node, ast.With) else []
        contexts += node.decorator_list if isinstance(node, ast.FunctionDef) else []
        for context in contexts:
            called = context.func if isinstance(context, ast.Call) else context
            if module.names.qualified(called, scope) in ("torch.no_grad", "torch.inference_mode"):
                return True
    return False


def blocks_around(module: ParsedFile, anchor: ast.stmt) -> Iterator[tuple[list[ast.stmt], int]]:
    """The blocks around a statement up to its function's, with where it stands in them, innermost first."""
    inner: ast.AST | None = anchor
    while inner is not None:
        outer = module.parent(inner)
        for name in ("body", "orelse", "finalbody", "handlers"):
            block = getattr(outer, name, None)
            if isinstance(block, list) and any(item is inner for item in block):
                yield block, next(i for i, item in enumerate(block) if item is inner)
        if isinstance(outer, FunctionNode):
            return
        inner = outer


def is_boundary(statement: ast.stmt) -> bool:
    """Whether a statement uses gradients, or changes parameters by them."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (node.func.attr == "backward" or (node.func.attr == "step" and _is_of_optimizer(node.func.value)))
        for node in ast.walk(statement)
    )


def _is_of_optimizer(node: ast.expr) -> bool:
    text = ast.unparse(node).lower()
    return "opt" in text or "scaler" in text
