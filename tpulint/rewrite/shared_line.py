"""Statements that share a line with others: some go, become others, or get more beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import libcst as cst

from tpulint.plan import Kind
from tpulint.rewrite.code import Statement, Statements, fits_on_line, joined, with_tail

#: What becomes of the statements of a line, by their number: what is done to each, and with which code.
Changes: TypeAlias = Mapping[int, Sequence[tuple[Kind, Statements]]]


def lines_of(statements: Sequence[cst.BaseSmallStatement], tail: cst.TrailingWhitespace) -> list[Statement]:
    """A line for each of some small statements, the last one ending as they did."""
    return with_tail([_line(one) for one in statements], tail)


def on_one_line(
    statements: Sequence[cst.BaseSmallStatement], changes: Changes
) -> list[cst.BaseSmallStatement] | None:
    """The statements after the changes; None where new ones do not fit on the line."""
    added = [code for group in changes.values() for kind, code in group if kind is not Kind.DELETE]
    if not all(map(fits_on_line, added)):
        return None
    if added:
        lines = [line for part in _parts(statements, changes) for line in part.body]
        return [one for line in lines if isinstance(line, cst.SimpleStatementLine) for one in line.body]
    kept = [one for number, one in enumerate(statements) if not changes.get(number)]
    return [*kept[:-1], *map(_last, kept[-1:])]


def on_own_lines(
    statements: Sequence[cst.BaseSmallStatement], changes: Changes, tail: cst.TrailingWhitespace
) -> tuple[list[Statement], list[cst.EmptyLine]]:
    """A line for each of the statements after the changes, and the lines that follow.

    The comment at the end of the line stays with its last statement.
    """
    body: list[Statement] = []
    rest: list[cst.EmptyLine] = []
    for part in _parts(statements, changes, tail):
        body, rest = joined(body, rest, part.body, part.after)
    if len(statements) - 1 in changes and tail.comment is not None and not _has_last(statements, changes):
        body = with_tail(body, tail)
    return body, rest


def _has_last(statements: Sequence[cst.BaseSmallStatement], changes: Changes) -> bool:
    return all(kind is not Kind.DELETE for kind, _ in changes.get(len(statements) - 1, ()))


def _parts(
    statements: Sequence[cst.BaseSmallStatement],
    changes: Changes,
    tail: cst.TrailingWhitespace | None = None,
) -> list[Statements]:
    """The statements after the changes, in order; the last one of the line ends with its tail."""
    parts: list[Statements] = []
    for number, statement in enumerate(statements):
        here = changes.get(number, ())
        instead = [Statements([_line(statement)], [])]
        if any(kind is Kind.DELETE for kind, _ in here):
            instead = []
        elif any(kind is Kind.REPLACE for kind, _ in here):
            instead = [code for kind, code in here if kind is Kind.REPLACE]
        if instead and tail is not None and number == len(statements) - 1:
            instead = [Statements(with_tail(instead[0].body, tail), instead[0].after)]
        parts += [code for kind, code in here if kind in (Kind.INSERT_ABOVE, Kind.INSERT_BEFORE)]
        parts += instead
        parts += [code for kind, code in here if kind is Kind.INSERT_AFTER]
    return parts


def _line(statement: cst.BaseSmallStatement) -> Statement:
    return cst.SimpleStatementLine([_last(statement)])


def _last(statement: cst.BaseSmallStatement) -> cst.BaseSmallStatement:
    """A statement without a semicolon of its own; LibCST writes one between two statements."""
    return statement.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
