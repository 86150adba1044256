"""What some releases of Python do otherwise."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)


def hidden(function: ast.FunctionDef) -> Iterator[str]:
    """The names that a comprehension of a function takes, and that another one reads beside a `:=`.

    Python 3.12.1 inlines both, and looks for such a name among the function's own.
    """
    within = [node for node in ast.walk(function) if isinstance(node, COMPREHENSIONS)]
    for comprehension in within:
        targets = {name.id for part in comprehension.generators for name in names(part.target)}
        own = {id(name) for name in names(comprehension)}
        for other in within:
            if any(isinstance(node, ast.NamedExpr) for node in ast.walk(other)):
                taken = {name.id for name in names(other) if isinstance(name.ctx, ast.Store)}
                read = {name.id for name in names(other) if id(name) not in own}
                yield from targets & read - taken


def names(node: ast.AST) -> Iterator[ast.Name]:
    return (one for one in ast.walk(node) if isinstance(one, ast.Name))


def test_no_comprehension_hides_a_name_from_another_one() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {function.name}: {name}"
        for folder in ("tpulint", "rules")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        for name in hidden(function)
    ]
    assert found == []


def test_a_name_hidden_by_another_comprehension_is_detected() -> None:
    code = """\
def f(rows):
    ends = {place.end for place in rows}
    return [name for row in rows if (name := place(row)) is not None], ends
"""
    function = ast.parse(code).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert list(hidden(function)) == ["place"]
