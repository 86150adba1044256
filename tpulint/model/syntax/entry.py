"""What runs only where a file is itself the program."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def is_main(test: ast.expr) -> bool:
    """Whether a condition is `__name__ == "__main__"`."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == "__name__"
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value == "__main__"
    )


def of_main(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that a file's import never comes to."""
    blocks = (
        node.body for node in ast.iter_child_nodes(tree) if isinstance(node, ast.If) and is_main(node.test)
    )
    return (node for block in blocks for statement in block for node in ast.walk(statement))
