"""Rewrites of statements that share their line with others."""

from __future__ import annotations

import pytest

from tests.rewriting import applied, planned
from tpulint.model.syntax.rewritten import text_lost
from tpulint.plan import Kind
from tpulint.source import Source


@pytest.mark.parametrize(
    ("text", "gone", "expected"),
    [
        ("a(); b()  # why\n", ["a()"], "b()  # why\n"),
        ("a(); b()  # why\n", ["b()"], "a()  # why\n"),
        ("a();b();c()\n", ["b()"], "a();c()\n"),
        ("a(); \\\n    b(); \\\n    c()\n", ["b()"], "a(); \\\n    c()\n"),
        ("a(); \\\n    b()\n", ["b()"], "a()\n"),
        ("# up\na(); b()  # why\nc\n", ["a()", "b()"], "# up\n# why\nc\n"),
        ("def f():\n    a(); b()\n", ["a()", "b()"], "def f():\n    pass\n"),
        ("if x: a(); b()  # why\n", ["a()"], "if x: b()  # why\n"),
        ("if x: a(); b()  # why\n", ["a()", "b()"], "if x: pass  # why\n"),
    ],
)
def test_a_statement_goes_and_others_on_its_line_stay(text: str, gone: list[str], expected: str) -> None:
    source = Source("file.py", text)
    assert expected == applied(source, *(planned(source, one, Kind.DELETE) for one in gone))


@pytest.mark.parametrize(
    ("text", "node", "code", "expected"),
    [
        (
            "import a, b; c()  # why\n",
            "import a, b",
            "import a\nimport b",
            "import a\nimport b\nc()  # why\n",
        ),
        (
            "c(); import a, b  # why\n",
            "import a, b",
            "import a\nimport b",
            "c()\nimport a\nimport b  # why\n",
        ),
        ("if x: import a, b\n", "import a, b", "import a\nimport b", "if x:\n    import a\n    import b\n"),
        (
            "if x: a(); b()  # why\nelse: c\n",
            "b()",
            "for d in e:\n    f",
            "if x:\n    a()\n    for d in e:\n        f  # why\nelse: c\n",
        ),
        ("a(); b()  # why\n", "a()", "c(); d()", "c(); d(); b()  # why\n"),
        ("a();b()  # why\n", "a()", "c()", "c();b()  # why\n"),
    ],
)
def test_other_statements_replace_one_that_shares_its_line(
    text: str, node: str, code: str, expected: str
) -> None:
    source = Source("file.py", text)
    assert expected == applied(source, planned(source, node, Kind.REPLACE, code))


def test_one_statement_goes_and_another_one_gets_more_beside_it() -> None:
    source = Source("file.py", "while x: a(); b()\n")
    changes = planned(source, "a()", Kind.DELETE), planned(source, "b()", Kind.INSERT_AFTER, "d")
    assert "while x: b(); d\n" == applied(source, *changes)


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("a(); b()\n", [True, True]),
        ("a(); \\\n    b()\n", [True, True]),
        ("a()  # of \\\nb()\n", [False, False]),
        ("a();  # why\nb()\n", [False, False]),
    ],
)
def test_a_statement_shares_its_row_with_code_before_or_after_it(text: str, shares: list[bool]) -> None:
    source = Source("file.py", text)
    assert shares == [source.shares_row(one) for one in source.tree.body]


def test_the_comment_of_a_line_is_not_lost_with_one_of_its_statements() -> None:
    source = Source("file.py", "a(); b()  # why\nc()  # why\n")
    texts = ("a()", "b()", "c()")
    assert ["a()", "b()", "c()  # why"] == [
        text_lost(source, planned(source, one, Kind.DELETE)) for one in texts
    ]
