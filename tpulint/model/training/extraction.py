"""A region of statements as a function of its own, and the statement that calls it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpulint.model.syntax.layout import call_lines
from tpulint.model.training.regions import Region
from tpulint.plan import Kind, Rewrite, path_of
from tpulint.source import first_row

if TYPE_CHECKING:
    from tpulint.model.syntax.parsed_file import ParsedFile


@dataclass(frozen=True, slots=True)
class Function:
    """What a region becomes: a function before another statement, and a call in the place of the region."""

    definition: Rewrite
    call: Rewrite


def extraction(
    module: ParsedFile,
    region: Region,
    name: str,
    decorator: str,
    parameters: Mapping[str, str],
    results: Mapping[str, str],
    arguments: Mapping[str, str],
    *,
    above: ast.stmt,
    is_method: bool,
) -> Function | None:
    """Write a region as a function.

    Args:
        module: the file.
        region: what to move.
        name: the function's name.
        decorator: what is written above it, without `@`.
        parameters: the function's parameters, by the places whose values they get.
        results: the names in the function of what it returns, by the places that get them.
        arguments: what the call gives for places that may have no value yet.
        above: the statement that the function goes before.
        is_method: whether the function is a method beside that one, its first parameter being `self`.

    Returns:
        None where the layout does not allow it, such as two statements on one line.
    """
    first = region.span[0]
    if any(map(module.source.shares_row, region.span)):
        return None
    renamed = {old: new for old, new in {**parameters, **results}.items() if old != new}
    outer = module.source.margin(above) if is_method else ""
    step, newline = module.source.indent, module.source.newline
    head = call_lines(f"def {name}", list(parameters.values()), outer, step, ":")
    apart = 1 if is_method else 2
    head[0] = head[0].removeprefix(outer)
    code = newline.join([f"@{decorator}", f"{outer}{head[0]}", *head[1:], f"{outer}{step}pass"])
    code = f"{newline * max(0, apart - _blank(module, above))}{code}{newline * apart}"
    returned = f"return {', '.join(results.values())}" if results else ""
    definition = Rewrite(
        path_of(above, module.parent),
        Kind.OUTLINE,
        (code, returned, *(f"{old}={new}" for old, new in renamed.items())),
        tuple(path_of(one, module.parent) for one in region.statements),
    )
    given = [arguments.get(place, place) for place in list(parameters)[is_method:]]
    callee = f"{'self.' if is_method else ''}{name}"
    left = f"{', '.join(results)} = " if results else ""
    indent = module.source.margin(first)
    call = newline.join(call_lines(f"{left}{callee}", given, indent, step, "")).removeprefix(indent)
    stays = [path_of(one, module.parent) for one in (*region.ahead, *region.behind)]
    counts = (str(len(region.span)), str(len(region.ahead)))
    run = Rewrite(path_of(first, module.parent), Kind.REPLACE_RUN, (call, *counts), tuple(stays))
    return Function(definition, run)


def _blank(module: ParsedFile, statement: ast.stmt) -> int:
    """How many blank lines there are above a statement and its comments."""
    source = module.source
    row = first_row(statement)
    while row > 1 and source.line(row - 1).lstrip().startswith("#"):
        row -= 1
    lines = [source.line(number) for number in range(1, row)]
    return next((i for i, line in enumerate(reversed(lines)) if line.strip()), len(lines))
