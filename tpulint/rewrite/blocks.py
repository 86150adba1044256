"""What becomes of the statements of one block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst

from tpulint.plan import Kind, Rewrite
from tpulint.rewrite.code import (
    BLANK,
    Reader,
    Statement,
    Statements,
    as_statement,
    joined,
    tail_of,
    with_tail,
)
from tpulint.rewrite.gaps import has_comment, joined_gaps
from tpulint.rewrite.locate import NotLocatedError
from tpulint.rewrite.shared_line import lines_of, on_one_line, on_own_lines

_Lines = list[cst.EmptyLine]


@dataclass(frozen=True, slots=True)
class Planned:
    """A rewrite of a statement, with its parts in the tree."""

    rewrite: Rewrite
    parts: tuple[Statement, ...] = ()
    #: How many lines and compound statements it is about.
    count: int = 1
    #: The place of the statement on its line, if it shares the line with others.
    number: int | None = None


def rebuilt(
    before: Any, now: Any, rewrites: Mapping[int, Sequence[Planned]], margin: str, reader: Reader
) -> Any:
    """A block with its statements rewritten; comments and blank lines above a statement that goes stay.

    Args:
        before: the block, or the file, as it was.
        now: the same with what lies within its statements rewritten.
        rewrites: what becomes of the statements, by the identity of their lines in `before`.
        margin: the indentation of the block.
        reader: parses code.
    """
    body: list[Statement] = []
    above: _Lines = []
    run = 0
    for old, line in zip(before.body, now.body, strict=True):
        lead = [*above, *line.leading_lines]
        above = []
        if run:
            run -= 1
            continue
        here = _Rewritten(as_statement(old), line, lead, margin, reader)
        for planned in sorted(rewrites.get(id(old), ()), key=lambda one: one.rewrite.path):
            run = max(run, here.take(planned))
        made, above = here.result()
        body += made
    if isinstance(now, cst.Module):
        if not above:
            return now.with_changes(body=body)
        return now.with_changes(
            body=body, **({"footer": [*above, *now.footer]} if body else {"header": above})
        )
    if not body:
        body = [cst.SimpleStatementLine([cst.Pass()])]
    return now.with_changes(body=body, footer=[*above, *now.footer])


class _Rewritten:
    """One statement of a block while it is rewritten."""

    def __init__(self, before: Statement, line: Statement, lead: _Lines, margin: str, reader: Reader) -> None:
        self._was = before
        self._test = ""
        self._line = line
        self._lead = lead
        self._margin = margin
        self._reader = reader
        self._above: list[Statements] = []
        self._before: list[Statements] = []
        self._instead: list[Statement] = [line]
        self._after: list[Statements] = []
        self._rest: _Lines = []
        #: What becomes of the statements that share the line, by their number.
        self._shared: dict[int, list[tuple[Kind, Statements]]] = {}

    def take(self, planned: Planned) -> int:
        """Carry one rewrite out; gives how many of the following statements go with this one."""
        rewrite = planned.rewrite
        if rewrite.kind is Kind.MOVE_OUT:
            self._instead = _shortened(self._line, int(rewrite.code[0]))
            return 0
        code = Statements([], [])
        if rewrite.kind is Kind.WRAP:
            code = self._reader.statements(f"{rewrite.code[0]} pass", self._margin)
        elif rewrite.code and rewrite.kind is not Kind.KEEP_IF:
            code = self._reader.statements(rewrite.code[0], self._margin)
        if planned.number is not None:
            self._shared.setdefault(planned.number, []).append((rewrite.kind, code))
            return 0
        match rewrite.kind:
            case Kind.WRAP:
                self._instead = [_enclosed(code.body[0], self._instead)]
            case Kind.DELETE:
                self._instead = []
            case Kind.REPLACE:
                self._instead = with_tail(code.body, tail_of(self._line))
            case Kind.REPLACE_RUN:
                return self._replace_run(code, planned)
            case Kind.SPLIT:
                self._instead = split(self._line)
            case Kind.OUTLINE:
                body = [_without_blank_lines(planned.parts[0]), *planned.parts[1:]]
                function = _outlined(code.body[0], body, rewrite.code[1], rewrite.code[2:], self._reader)
                self._above.append(Statements([function], code.after))
            case Kind.UNWRAP:
                self._instead, self._rest = _inside(self._line)
            case Kind.KEEP_IF:
                self._test = rewrite.code[0]
            case Kind.INSERT_ABOVE:
                self._above.append(code)
            case Kind.INSERT_BEFORE:
                self._before.append(code)
            case Kind.INSERT_AFTER:
                self._after.append(code)
            case _:
                raise NotLocatedError(f"{rewrite.kind} of a statement")
        return 0

    def _replace_run(self, code: Statements, planned: Planned) -> int:
        ahead = planned.rewrite.code[2:]
        front = planned.parts[: int(ahead[0])] if ahead else ()
        stays = [*front, *code.body, *planned.parts[len(front) :]]
        is_first = any(one is self._was for one in planned.parts)
        if planned.parts or ahead:
            # What is said of the first statement goes where it goes.
            kept = self._lead if is_first else self._lead[: _comments_from(self._lead)]
            if is_first:
                stays[0] = stays[0].with_changes(leading_lines=[])
            elif kept and kept[-1].comment is None:
                stays[0] = _without_blank_lines(stays[0])
            self._lead = kept
        self._instead = stays
        self._rest = code.after
        return planned.count - 1

    def _share_line(self) -> None:
        """Rewrite statements that share the line; where they do not fit on it, each gets one."""
        assert isinstance(self._line, cst.SimpleStatementLine)
        tail = self._line.trailing_whitespace
        small = on_one_line(self._line.body, self._shared)
        if small is None:
            self._instead, self._rest = on_own_lines(self._line.body, self._shared, tail)
        elif small:
            self._instead = [self._line.with_changes(body=small, leading_lines=[])]
        else:
            self._instead = []
            self._rest = [cst.EmptyLine(comment=tail.comment)] if tail.comment is not None else []

    def result(self) -> tuple[list[Statement], _Lines]:
        """The statements that are here now, and lines to put above the next one."""
        if self._shared:
            self._share_line()
        lead = self._lead
        close = _comments_from(lead) if self._above else len(lead)
        body: list[Statement] = []
        rest: _Lines = lead[:close]
        for part in self._above:
            body, rest = joined(body, rest, part.body, part.after)
        rest = [*rest, *lead[close:]]
        for part in self._before:
            body, rest = joined(body, rest, part.body, part.after)
        if self._test:
            self._instead = [_chosen(self._was, self._instead, self._reader.expression(self._test, ""))]
        plain = [one.with_changes(leading_lines=[]) if one is self._line else one for one in self._instead]
        body, rest = joined(body, rest, plain, self._rest)
        for part in self._after:
            body, rest = joined(body, rest, part.body, part.after)
        return body, rest


def _comments_from(lines: _Lines) -> int:
    """Where the comments begin that stand right above a statement."""
    start = len(lines)
    while start and lines[start - 1].comment is not None:
        start -= 1
    return start


def _without_blank_lines(statement: Statement) -> Statement:
    """A statement with none but the comments right above it."""
    lines = list(statement.leading_lines)
    return statement.with_changes(leading_lines=lines[_comments_from(lines) :])


def split(line: Statement) -> list[Statement]:
    """A line for each statement of a line."""
    assert isinstance(line, cst.SimpleStatementLine)
    return lines_of(line.body, line.trailing_whitespace)


def _shortened(statement: Statement, count: int) -> list[Statement]:
    """A `with` without its last statements, and these after it."""
    assert isinstance(statement, cst.With) and isinstance(statement.body, cst.IndentedBlock)
    body = [as_statement(one) for one in statement.body.body]
    block = statement.body.with_changes(body=body[:-count])
    return [statement.with_changes(body=block), *body[-count:]]


def _outlined(
    head: Statement, body: Sequence[Statement], last: str, names: Sequence[str], reader: Reader
) -> Statement:
    """A function with other statements as its body, in which attributes have names of their own."""
    assert isinstance(head, cst.FunctionDef)
    renaming = _Renaming(dict(name.split("=") for name in names))
    moved = [_visited(one, renaming) for one in body]
    returned = reader.statements(last, "").body if last else []
    return head.with_changes(body=head.body.with_changes(body=[*moved, *returned]))


def _visited(statement: Statement, transformer: cst.CSTTransformer) -> Statement:
    changed = statement.visit(transformer)
    assert isinstance(changed, cst.CSTNode)
    return as_statement(changed)


class _Renaming(cst.CSTTransformer):
    """Puts names in the place of attributes: comments around the dots stay, nothing stays on blank lines."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self._names = names
        #: Attributes that have one as their value, which leaves the gap around its dot to them.
        self._outer: dict[int, cst.BaseParenthesizableWhitespace] = {}
        self._inner: set[int] = set()

    def visit_Attribute(self, node: cst.Attribute) -> None:  # noqa: N802 - LibCST finds it by this name
        """Note what stands around the dot of an attribute that becomes a name."""
        inner = node.value
        if isinstance(inner, cst.Attribute) and not inner.lpar and _dotted(inner) in self._names:
            self._outer[id(node)] = joined_gaps(_gap(inner.dot), node.dot.whitespace_before)
            self._inner.add(id(inner))

    def leave_EmptyLine(  # noqa: N802 - LibCST finds it by this name
        self, original_node: cst.EmptyLine, updated_node: cst.EmptyLine
    ) -> cst.EmptyLine:
        return updated_node if original_node.comment is not None else BLANK

    def leave_Attribute(  # noqa: N802 - LibCST finds it by this name
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        """Put a name in the place of an attribute."""
        gap = self._outer.get(id(original_node))
        if gap is not None:
            return updated_node.with_changes(dot=updated_node.dot.with_changes(whitespace_before=gap))
        name = self._names.get(_dotted(original_node))
        if name is None:
            return updated_node
        left, right = list(updated_node.lpar), list(updated_node.rpar)
        gap = _gap(original_node.dot)
        if id(original_node) not in self._inner and has_comment(gap):
            left, right = [*left, cst.LeftParen()], [cst.RightParen(whitespace_before=gap), *right]
        return cst.Name(name, lpar=left, rpar=right)


def _gap(dot: cst.Dot) -> cst.BaseParenthesizableWhitespace:
    return joined_gaps(dot.whitespace_before, dot.whitespace_after)


def _dotted(node: cst.BaseExpression) -> str:
    if isinstance(node, cst.Attribute):
        return f"{_dotted(node.value)}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""


def _enclosed(head: Statement, body: Sequence[Statement]) -> Statement:
    """A compound statement with other statements as its block."""
    return head.with_changes(body=cst.IndentedBlock([one.with_changes(leading_lines=[]) for one in body]))


def _chosen(before: Statement, now: Sequence[Statement], test: cst.BaseExpression) -> Statement:
    """A statement where a condition holds, and else what others make of it, if anything."""
    was = before.deep_clone()
    others = [one.with_changes(leading_lines=[]) for one in now]
    is_nothing = all(
        isinstance(one, cst.SimpleStatementLine) and isinstance(one.body[0], cst.Pass) for one in others
    )
    orelse = None if is_nothing else cst.Else(cst.IndentedBlock(others))
    if isinstance(was, cst.If) and was.test.deep_equals(test):
        return was.with_changes(leading_lines=[], orelse=orelse)
    block = cst.IndentedBlock([was.with_changes(leading_lines=[])])
    return cst.If(test, block, orelse)


def _inside(statement: Statement) -> tuple[list[Statement], _Lines]:
    """The statements of a compound statement's block, and the comments after them."""
    block = getattr(statement, "body")  # noqa: B009 - which kinds of statements have one is LibCST's to know
    if isinstance(block, cst.IndentedBlock):
        return [as_statement(one) for one in block.body], list(block.footer)
    line = cst.SimpleStatementLine(block.body, trailing_whitespace=block.trailing_whitespace)
    return [line], []
