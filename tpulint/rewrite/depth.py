"""How deep code may be nested for LibCST, whose parser overflows the stack where Python's does not."""

from __future__ import annotations

import ast

#: Deeper code is not rewritten. With 1,000 levels, LibCST still takes all that `ast` does. With 2,000, a
#: chain of attributes takes minutes, and with 10,000, `a and b and ...` ends the process.
MAX_DEPTH = 500


def is_too_deep(tree: ast.AST) -> bool:
    """Whether a tree has more levels than are rewritten."""
    waiting = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        # LibCST has a node within the other for each `and`.
        depth += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 1
        if depth > MAX_DEPTH:
            return True
        waiting += [(part, depth) for part in ast.iter_child_nodes(node) if not _is_short(part, depth)]
    return False


def _is_short(node: ast.AST, depth: int) -> bool:
    """Whether code is on one line, and has too few characters for the levels that are left."""
    if not isinstance(node, ast.expr):
        return isinstance(node, ast.expr_context | ast.operator | ast.cmpop | ast.unaryop | ast.boolop)
    width = (node.end_col_offset or 0) - node.col_offset
    return node.lineno == node.end_lineno and width + depth < MAX_DEPTH
