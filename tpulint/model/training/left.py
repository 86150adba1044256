"""What modules leave in their attributes when they are called, such as a part of the loss."""

from __future__ import annotations

import ast
import re

from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.effects import effects, place, root
from tpulint.model.values.kinds import Instance, Unknown
from tpulint.model.values.typed_file import TypedFile

#: What people call a part of the loss that a module keeps.
_PART_OF_LOSS = re.compile(r"loss|aux|(^|_)(kl|kld|nll|reg)(_|$)|penalty|entropy|diverg", re.IGNORECASE)


def left(module: TypedFile, scope: Scope) -> frozenset[str]:
    """The places of modules of which a function reads what their `forward` leaves in attributes.

    For `layer.loss`, where `for layer in layers` goes through them, that is `layers`.
    """
    computed = module.project.computed
    if not computed:
        return frozenset()
    body = list(ast.walk((scope.function or module.index.module).node))
    reads = [
        node.value
        for node in body
        if isinstance(node, ast.Attribute) and node.attr in computed and _is_left(module, node, scope)
    ]
    sources = _sources(body) if reads else {}
    found = set[str]()
    for read in reads:
        name = root(read)
        if name is not None and name != "self":
            found |= sources.get(name, {name})
    return frozenset(name for name in found if "." in name or module.names.lookup(name, scope) is not None)


def _is_left(module: TypedFile, read: ast.Attribute, scope: Scope) -> bool:
    if not isinstance(read.ctx, ast.Load) or place(read) is not None:
        return False
    kind = module.kind(read.value, scope)
    if isinstance(kind, Instance):
        return module.project.is_module_class(kind.cls) and module.project.is_computed(kind.cls, read.attr)
    return isinstance(kind, Unknown) and _PART_OF_LOSS.search(read.attr) is not None


def _sources(body: list[ast.AST]) -> dict[str, set[str]]:
    """What loops and comprehensions go through, by the names that they bind."""
    found: dict[str, set[str]] = {}
    for node in body:
        if isinstance(node, ast.For | ast.comprehension):
            for name in effects([node.target]).writes:
                found.setdefault(name, set()).update(effects([node.iter]).reads)
    return found
