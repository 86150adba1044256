"""Blocks that do nothing but assign names."""

from __future__ import annotations

import ast
from collections.abc import Sequence


def plain_assignments(block: Sequence[ast.stmt]) -> dict[str, ast.expr] | None:
    """What a block assigns, by names in their order; None if it does anything else, or assigns one twice."""
    found: dict[str, ast.expr] = {}
    for statement in block:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in found:
                found[name] = value
            case ast.Pass():
                pass
            case _:
                return None
    return found
