"""What ends a block under autocast and only keeps numbers, as `total += loss.item()`, can stand behind it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Set
from typing import TYPE_CHECKING

from tpulint.model.names.qualified import dotted
from tpulint.model.syntax.effects import effects
from tpulint.plan import Kind, Rewrite, path_of

if TYPE_CHECKING:
    from tpulint.model.syntax.parsed_file import ParsedFile

#: What is called on the way from a tensor to a number.
_READING: frozenset[str | None] = frozenset({"item", "detach", "cpu", "size", "len", "float"})


def kept_behind(module: ParsedFile, statements: Iterable[ast.stmt], losses: Set[str]) -> list[Rewrite]:
    """What takes such statements out of their blocks; not those that change what `losses` names."""
    blocks = (block for block in statements if isinstance(block, ast.With) and _is_autocast(block))
    counts = ((block, len(list(_last(module, block, losses)))) for block in blocks)
    return [
        Rewrite(path_of(block, module.parent), Kind.MOVE_OUT, (str(count),))
        for block, count in counts
        if count
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
