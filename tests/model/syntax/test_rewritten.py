"""What rewrites take out of a file."""

from __future__ import annotations

import ast

import pytest

from tests.rewriting import planned
from tpulint.model.syntax.rewritten import text_lost
from tpulint.plan import Kind, Rewrite
from tpulint.source import Source


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f(a, b=1)  # why\n", "b=1"),
        ("f(\n    a,\n    b=1,  # why\n)\n", "    b=1,  # why"),
        ("f(\n    a,\n    # why\n    b=1,\n    # of c\n    c=2,\n)\n", "    # why\n    b=1"),
    ],
)
def test_an_argument_goes_with_the_comments_about_it(text: str, expected: str) -> None:
    source = Source("file.py", text)
    statement = source.tree.body[0]
    assert isinstance(statement, ast.Expr)
    path = (("body", 0), ("value", -1), ("keywords", 0))
    assert expected == text_lost(source, Rewrite(path, Kind.REMOVE_ARGUMENT))


def test_a_deleted_statement_goes_with_the_comment_behind_it() -> None:
    source = Source("file.py", "f()  # why\ng()\n")
    assert "f()  # why" == text_lost(source, planned(source, "f()", Kind.DELETE))
