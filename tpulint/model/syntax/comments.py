"""Annotations that stand in comments, as in torchvision's detection models: `# type: (Tensor) -> int`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tpulint.model.names.scopes import Scope, parameters

if TYPE_CHECKING:
    from tpulint.source import Source

_SIGNATURE = re.compile(r"\((.*)\)\s*->")


def commented(source: Source, scope: Scope) -> dict[str, ast.expr]:
    """What comments say of a function's parameters, by name."""
    node = scope.node
    if not source.type_comments or not isinstance(node, ast.FunctionDef):
        return {}
    found: dict[str, ast.expr] = {}
    given = [argument for argument in parameters(node) if argument.annotation is None]
    for row in range(node.lineno, node.body[0].lineno + 1):
        text = source.type_comments.get(row)
        if text is None:
            continue
        signature = _SIGNATURE.match(text)
        if signature is None:
            ends = [argument.arg for argument in given if argument.end_lineno == row]
            found.update((name, kind) for name in ends[-1:] for kind in _parsed(text))
            continue
        kinds = list(_parsed(f"[{signature[1].replace('*', '')}]"))
        kinds = kinds[0].elts if kinds and isinstance(kinds[0], ast.List) else []
        names = [argument.arg for argument in parameters(node)]
        found.update(zip(names[len(names) - len(kinds) :], kinds, strict=False))
    return found


def _parsed(text: str) -> Iterator[ast.expr]:
    try:
        yield ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return
