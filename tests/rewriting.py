"""Rewrites of the nodes of a text, which tests name by their source."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tpulint.finding import Applicability, Fix
from tpulint.plan import Change, Import, Kind, NodePath, Rewrite, path_of
from tpulint.rewrite.apply import File
from tpulint.source import Source

#: Nodes that rewrites are about, and that have a place in the text.
_PLACED = ast.expr | ast.stmt | ast.keyword | ast.arg | ast.alias


def path_to(source: Source, text: str, occurrence: int = 0) -> NodePath:
    """The path of the outermost node with this source; the first such place unless an occurrence is given.

    An item of a `with` has the source of its context.
    """
    parents = {id(child): node for node in ast.walk(source.tree) for child in ast.iter_child_nodes(node)}
    found: dict[int, ast.AST] = {}
    for node in ast.walk(source.tree):
        placed = node.context_expr if isinstance(node, ast.withitem) else node
        if isinstance(placed, _PLACED):
            span = source.span(placed)
            if source.text[span.start : span.end] == text:
                found.setdefault(span.start, node)
    node = found[sorted(found)[occurrence]]
    return path_of(node, lambda inner: parents.get(id(inner)))


def planned(source: Source, text: str, kind: Kind, *code: str, parts: Sequence[str] = ()) -> Rewrite:
    """A rewrite of the node with this source; `parts` are other nodes by their sources."""
    return Rewrite(path_to(source, text), kind, code, tuple(path_to(source, part) for part in parts))


def fix_of(*changes: Change) -> Fix:
    """A safe fix of rewrites and imports."""
    rewrites = tuple(one for one in changes if isinstance(one, Rewrite))
    return Fix(
        "change it",
        rewrites,
        Applicability.SAFE,
        tuple(one for one in changes if isinstance(one, Import)),
    )


def applied(source: Source, *changes: Change) -> str:
    """The text with all of the changes made, as one fix."""
    fix = fix_of(*changes)
    text, taken = File(source, [fix]).apply([fix])
    assert (fix,) == taken
    return text
