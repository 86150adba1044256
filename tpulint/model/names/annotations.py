"""Annotations as text in which every name is qualified, so that another module can read them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from tpulint.knowledge.tensors import TENSOR_TYPES
from tpulint.model.names.index import Index
from tpulint.model.names.qualified import Names, dotted
from tpulint.model.names.scopes import Scope, ScopeKind

_WORD = re.compile(r"[\w.]+")
#: What the annotation of a tensor, which may be absent, or of several is made of.
_OFFERED = TENSOR_TYPES | {
    "None",
    *(f"typing.{name}" for name in ("Optional", "Union", "Tuple", "List", "Sequence")),
    *("builtins.tuple", "builtins.list", "collections.abc.Sequence", "..."),
}
_OTHER = ("SparseTensor", "NestedTensor", "DTensor")


def qualified_text(node: ast.expr, scope: Scope, names: Names) -> str:
    """An annotation with its names qualified; "" for one that is made of anything else."""
    match node:
        case ast.Constant(value=str() as text):
            try:
                return qualified_text(ast.parse(text, mode="eval").body, scope, names)
            except (SyntaxError, ValueError):
                return ""
        case ast.Name() | ast.Attribute():
            return names.qualified(node, scope) or own_name(node, scope, names)
        case ast.Subscript():
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            head = qualified_text(node.value, scope, names)
            parts = [qualified_text(item, scope, names) for item in inner]
            return f"{head}[{', '.join(parts)}]" if head and all(parts) else ""
        case ast.BinOp(op=ast.BitOr()):
            left, right = qualified_text(node.left, scope, names), qualified_text(node.right, scope, names)
            return f"{left} | {right}" if left and right else ""
        case ast.Constant(value=None):
            return "None"
        case ast.Constant(value=value) if value is ...:
            return "..."
        case _:
            return ""


def own_name(node: ast.expr, scope: Scope, names: Names) -> str:
    """The qualified name of a variable of the module itself, which may stand for an annotation; else ""."""
    found = names.lookup(node.id, scope) if isinstance(node, ast.Name) else None
    if found is None or found[0].kind is not ScopeKind.MODULE:
        return ""
    return f"{names.module}.{node.id}" if isinstance(node, ast.Name) else ""


def aliases(index: Index, names: Names) -> dict[str, str]:
    """The names of a module that stand for an annotation, such as `OptTensor = Optional[Tensor]`."""
    found: dict[str, str] = {}
    for name, bindings in index.module.bindings.items():
        value = bindings[0].value if len(bindings) == 1 else None
        if isinstance(value, ast.Subscript | ast.BinOp):
            text = qualified_text(value, index.module, names)
            if text:
                found[name] = text
    return found


def expanded(text: str, alias: Callable[[str], str | None]) -> ast.expr | None:
    """A qualified annotation with what its names stand for put in their places; None if it does not parse.

    Args:
        text: the annotation.
        alias: what a qualified name stands for, if it does.
    """
    try:
        return _Expansion(alias).visit(ast.parse(text, mode="eval").body)  # type: ignore[no-any-return]
    except (SyntaxError, ValueError):
        return None


class _Expansion(ast.NodeTransformer):
    """Puts what names stand for in their places, each once along a path, so that no cycle goes on."""

    def __init__(self, alias: Callable[[str], str | None]) -> None:
        self.alias = alias
        self.inside: list[str] = []

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._named(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self._named(node)

    def _named(self, node: ast.expr) -> ast.expr:
        name = dotted(node) or ""
        text = self.alias(name) if name not in self.inside else None
        if text is None:
            return node
        self.inside.append(name)
        result: ast.expr = self.visit(ast.parse(text, mode="eval").body)
        self.inside.pop()
        return result


def is_of_tensors(node: ast.expr) -> bool:
    """Whether a qualified annotation is that of a tensor or several, and of nothing else.

    A tensor of another kind, such as a `SparseTensor`, may take its place.
    """
    words = {word for word in _WORD.findall(ast.unparse(node)) if not word.endswith(_OTHER)}
    return words <= _OFFERED and not words.isdisjoint(TENSOR_TYPES)
