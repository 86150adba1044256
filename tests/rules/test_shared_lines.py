"""Fixes of code that shares lines can be carried out: what `check` counts as fixable, `fix` fixes."""

from __future__ import annotations

import ast
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tpulint.engine.edits import edits_of
from tpulint.fixture import Case, cases, strip_wants
from tpulint.testing import findings

#: A sample; all cases take a minute.
CASES = [case for case in cases(Path(__file__).parents[2] / "fixtures") if case.has_code][::12]
SIMPLE = (
    ast.Assign | ast.AugAssign | ast.Expr | ast.Return | ast.Import | ast.ImportFrom | ast.Pass | ast.Assert
)


def joined(text: str, separator: str, *, headers: bool) -> str:
    """A file whose simple statements are on the lines of those before them, and of headers if possible."""
    rows = text.splitlines()
    ends: dict[int, str] = {}
    for node in ast.walk(ast.parse(text)):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if not isinstance(block, list) or not block:
                continue
            pairs = [(one, other) for one, other in pairwise(block) if _may_join(one, other, rows)]
            ends |= {one.end_lineno: separator for one, _ in pairs}
            above = block[0].lineno - 1
            is_whole = len(pairs) == len(block) - 1 and isinstance(block[0], SIMPLE)
            if headers and is_whole and above and rows[above - 1].endswith(":"):
                ends[above] = " "
    parts = [
        f"{row.lstrip() if number - 1 in ends else row}{ends.get(number, chr(10))}"
        for number, row in enumerate(rows, 1)
    ]
    return "".join(parts)


def _may_join(one: ast.stmt, other: ast.stmt, rows: list[str]) -> bool:
    is_docstring = isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
    is_next = one.end_lineno is not None and other.lineno == one.end_lineno + 1
    are_simple = isinstance(one, SIMPLE) and isinstance(other, SIMPLE) and not is_docstring
    return are_simple and is_next and "#" not in rows[other.lineno - 2]


def test_statements_are_joined() -> None:
    text = "if a:\n    b\n    c\nd = 1\ne = 2\n"
    assert "if a:\n    b; c\nd = 1; e = 2\n" == joined(text, "; ", headers=False)
    assert "if a: b; c\nd = 1; e = 2\n" == joined(text, "; ", headers=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}/{case.name}")
@pytest.mark.parametrize(
    ("separator", "headers"),
    [("; ", False), ("; \\\n    ", False), ("; ", True)],
    ids=["line", "rows", "header"],
)
def test_each_fix_of_code_that_shares_lines_has_edits(case: Case, separator: str, headers: bool) -> None:
    before = {
        path: joined(strip_wants(text), separator, headers=headers) for path, text in case.before.items()
    }
    found = findings(replace(case, before=before))
    edits = edits_of(found, {str(case.folder / path): text.encode() for path, text in before.items()})
    assert [] == [
        f"{one.code} {one.source_line}"
        for one in found
        if one.fix is not None and not edits[one.path, one.fix]
    ]
