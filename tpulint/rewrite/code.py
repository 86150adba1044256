"""Python code of a rewrite as LibCST nodes, at the indentation of the place where it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import libcst as cst

BLANK = cst.EmptyLine(indent=False)
Statement: TypeAlias = cst.SimpleStatementLine | cst.BaseCompoundStatement


@dataclass(frozen=True, slots=True)
class Statements:
    """Parsed statements, and the blank lines and comments after the last one."""

    body: list[Statement]
    after: list[cst.EmptyLine]


class BrokenCodeError(ValueError):
    """Code of a fix that does not parse, which is an error of its rule; the text is the code."""


class UnwritableError(ValueError):
    """Code that does not fit where it goes; the text is the code."""


class Reader:
    """Parses code for one file.

    Args:
        module: the file, whose line ending and indentation the code has.
    """

    def __init__(self, module: cst.Module) -> None:
        self._config = cst.PartialParserConfig(
            default_indent=module.default_indent, default_newline=module.default_newline
        )
        self._newline = module.default_newline

    def statements(self, code: str, margin: str) -> Statements:
        """Statements, the lines after the first indented as far as their place is.

        Args:
            code: the statements; line ends before the first and after the last stand for blank lines.
            margin: the indentation of the place.

        Raises:
            BrokenCodeError: for code that does not parse.
        """
        start = len(code) - len(code.lstrip("\r\n"))
        end = len(code.rstrip("\r\n"))
        above, below = code[:start].count("\n"), code[end:].count("\n")
        code = code[start:end]
        if not margin:
            module = self._parsed(code)
            body = [as_statement(one) for one in module.body]
            lines, rest = [*module.header], [*module.footer]
        else:
            module = self._parsed(f"if True:{self._newline}{margin}{code}")
            condition = module.body[0]
            assert isinstance(condition, cst.If) and isinstance(condition.body, cst.IndentedBlock)
            body, lines = [as_statement(one) for one in condition.body.body], []
            rest = [*condition.body.footer, *module.footer]
        lines = [*[BLANK] * above, *lines]
        rest = [*rest, *[BLANK] * below]
        if not body:
            return Statements([], [*lines, *rest])
        body[0] = body[0].with_changes(leading_lines=[*lines, *body[0].leading_lines])
        return Statements(body, rest)

    def expression(self, code: str, margin: str) -> cst.BaseExpression:
        """An expression, with its own parentheses.

        Raises:
            BrokenCodeError: for code that does not parse.
        """
        if "\n" not in code and "\r" not in code and "#" not in code:
            try:
                return cst.parse_expression(code, config=self._config)
            except cst.ParserSyntaxError:
                pass  # such as a `yield`, which needs parentheses
        [statement] = self.statements(f"({code}{self._newline}{margin})", margin).body
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if not isinstance(small, cst.Expr) or not small.value.lpar:
            raise BrokenCodeError(code)
        value = small.value
        return value.with_changes(lpar=value.lpar[1:], rpar=value.rpar[:-1])

    def argument(self, code: str, margin: str) -> cst.Arg:
        """One argument of a call: an expression, `name=expression`, or either with stars."""
        call = self.expression(f"f({code})", margin)
        assert isinstance(call, cst.Call)
        return call.args[0].with_changes(comma=cst.MaybeSentinel.DEFAULT)

    def _parsed(self, code: str) -> cst.Module:
        try:
            return cst.parse_module(code, config=self._config)
        except cst.ParserSyntaxError as error:
            raise BrokenCodeError(code) from error


def as_statement(node: cst.CSTNode) -> Statement:
    """A node that is known for a statement, typed as one."""
    assert isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement)
    return node


def fits_on_line(statements: Statements) -> bool:
    """Whether statements can share a line with others: one simple statement without a comment."""
    [line, *others] = statements.body or [cst.If(cst.Name("_"), cst.IndentedBlock([]))]
    is_simple = isinstance(line, cst.SimpleStatementLine) and line.trailing_whitespace.comment is None
    return is_simple and not (others or statements.after or line.leading_lines)


def joined(
    body: list[Statement],
    above: list[cst.EmptyLine],
    more: Sequence[Statement],
    after: Sequence[cst.EmptyLine],
) -> tuple[list[Statement], list[cst.EmptyLine]]:
    """Statements with more of them at the end, and the lines that stand after those."""
    if not more:
        return body, [*above, *after]
    first, *others = more
    first = first.with_changes(leading_lines=[*above, *first.leading_lines])
    return [*body, first, *others], list(after)


def with_tail(statements: Sequence[Statement], tail: cst.TrailingWhitespace) -> list[Statement]:
    """Statements, the last line ending as another one did: with its comment."""
    *ahead, last = statements
    return [*ahead, _ending(last, tail)]


def _ending(node: Statement, tail: cst.TrailingWhitespace) -> Statement:
    if isinstance(node, cst.SimpleStatementLine):
        return node.with_changes(trailing_whitespace=tail)
    holder, block = _last_block(node)
    if isinstance(block, cst.SimpleStatementSuite):
        changed: cst.BaseSuite = block.with_changes(trailing_whitespace=tail)
    else:
        assert isinstance(block, cst.IndentedBlock)
        *ahead, last = block.body
        changed = block.with_changes(body=[*ahead, _ending(as_statement(last), tail)])
    return _with_block(node, holder, changed)


def tail_of(node: Statement) -> cst.TrailingWhitespace:
    """What stands after the last statement of a statement, on its line."""
    if isinstance(node, cst.SimpleStatementLine):
        return node.trailing_whitespace
    block = _last_block(node)[1]
    if isinstance(block, cst.SimpleStatementSuite):
        return block.trailing_whitespace
    assert isinstance(block, cst.IndentedBlock)
    return tail_of(as_statement(block.body[-1]))


def _last_block(node: cst.CSTNode) -> tuple[tuple[str, ...], cst.BaseSuite]:
    """The fields that lead to the last block of a compound statement, and the block."""
    for name in ("finalbody", "orelse"):
        part = getattr(node, name, None)
        if part is not None:
            fields, block = _last_block(part)
            return (name, *fields), block
    for name in ("handlers", "cases"):
        if getattr(node, name, None):
            fields, block = _last_block(getattr(node, name)[-1])
            return (name, *fields), block
    block = getattr(node, "body")  # noqa: B009 - which kinds of statements have one is LibCST's to know
    assert isinstance(block, cst.BaseSuite)
    return (), block


def _with_block(node: cst.CSTNode, fields: tuple[str, ...], block: cst.BaseSuite) -> Statement:
    return as_statement(_replaced(node, fields, block))


def _replaced(node: cst.CSTNode, fields: tuple[str, ...], block: cst.BaseSuite) -> cst.CSTNode:
    if not fields:
        return node.with_changes(body=block)
    name, *rest = fields
    part = getattr(node, name)
    if name in ("handlers", "cases"):
        return node.with_changes(**{name: [*part[:-1], _replaced(part[-1], tuple(rest), block)]})
    return node.with_changes(**{name: _replaced(part, tuple(rest), block)})
