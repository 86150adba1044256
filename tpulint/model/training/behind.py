"""What ends a block under autocast and only keeps numbers, as `total += loss.item()`, can stand behind it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Set

from tpulint.finding import Span
from tpulint.model.names.qualified import dotted
from tpulint.model.syntax.effects import effects
from tpulint.model.syntax.parsed_file import ParsedFile

#: What is called on the way from a tensor to a number.
_READING: frozenset[str | None] = frozenset({"item", "detach", "cpu", "size", "len", "float"})


def kept_behind(
    module: ParsedFile, statements: Iterable[ast.stmt], losses: Set[str]
) -> list[tuple[Span, str]]:
    """What takes such statements out of their blocks; not those that change what `losses` names."""
    return [
        edit
        for block in statements
        if isinstance(block, ast.With) and _is_autocast(block)
        for one in _last(module, block, losses)
        for edit in _moved_out(module, block, one)
    ]


def _is_autocast(block: ast.With) -> bool:
    contexts = [item.context_expr for item in block.items]
    called = [dotted(one.func) or "" for one in contexts if isinstance(one, ast.Call)]
    return len(called) == len(contexts) and all(name.rpartition(".")[2] == "autocast" for name in called)


def _last(module: ParsedFile, block: ast.With, losses: Set[str]) -> Iterator[ast.stmt]:
    """The last statements of a block that only keep numbers, if something else stands before them."""
    for one in reversed(block.body[1:]):
        shares_row = one.lineno != one.end_lineno or module.source.ahead_of(one).strip()
        if shares_row or not _keeps_number(one) or not losses.isdisjoint(effects([one]).writes):
            return
        yield one


def _keeps_number(statement: ast.stmt) -> bool:
    match statement:
        case ast.AugAssign(value=value) | ast.Expr(
            ast.Call(func=ast.Attribute(attr="append"), args=[value], keywords=[])
        ):
            called = [call.func for call in ast.walk(value) if isinstance(call, ast.Call)]
            names = [one.attr if isinstance(one, ast.Attribute) else dotted(one) for one in called]
            return "item" in names and _READING.issuperset(names)
        case _:
            return False


def _moved_out(module: ParsedFile, block: ast.With, statement: ast.stmt) -> Iterator[tuple[Span, str]]:
    """The margin of the block for a statement, and for the comments ahead of it."""
    source, place = module.source, block.body.index(statement)
    inner, outer = source.margin(statement), source.margin(block)
    before = block.body[place - 1]
    for row in range((before.end_lineno or before.lineno) + 1, statement.lineno + 1):
        start = source.line_starts[row - 1]
        if source.line(row).startswith(inner):
            yield Span(start, start + len(inner)), outer
