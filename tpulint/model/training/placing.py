"""Where the function goes that a region of statements becomes, and what takes the region's place."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpulint.finding import Span
from tpulint.model.names.references import method_around
from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.bound import binders, surely_read, surely_written
from tpulint.model.training.extraction import extraction
from tpulint.model.training.regions import Region
from tpulint.source import first_row

if TYPE_CHECKING:
    from tpulint.model.syntax.parsed_file import ParsedFile
    from tpulint.model.training.changing import Changing


@dataclass(frozen=True, slots=True)
class Moved:
    """A function to insert at an offset, and what takes the place of the lines that it is made of.

    `bindings` are lines to insert at offsets, without which an argument of the call may not be bound.
    """

    offset: int
    definition: str
    span: Span
    call: str
    bindings: tuple[tuple[int, str], ...] = ()


def placed(
    module: ParsedFile, changing: Changing, found: Region, scope: Scope, name: str, decorator: str
) -> Moved | None:
    """Make a region a function: a method beside the one around it where it needs `self`.

    Args:
        module: the file.
        changing: what changes in it; attributes of `self` that do become parameters.
        found: the region.
        scope: the scope of its statements.
        name: the function's name.
        decorator: what is written above it, without `@`.

    Returns:
        None where the layout does not allow it.
    """
    changed = changing.attributes(scope)
    kept = {p for p in found.inputs if p.startswith("self.") and p not in changed} - set(found.outputs)
    reads_self = bool(kept) or "self" in found.inputs
    method = method_around(scope)
    around = method.node if reads_self and method is not None else None
    parameters = {"self": "self"} if reads_self else {}
    plain = {
        node.id
        for statement in found.statements
        for node in ast.walk(statement)
        if isinstance(node, ast.Name)
    }
    parameters |= {name: _within(name, plain) for name in found.inputs if name not in kept and name != "self"}
    results = {name: _within(name, plain) for name in found.outputs}
    left_open = _left_open(found)
    parameters |= {name: results[name] for name in left_open}
    assert around is None or isinstance(around, ast.stmt)
    made = extraction(module, found, name, decorator, parameters, results, left_open, method=around)
    if made is None:
        return None
    newline = module.source.newline
    apart = 2 if around is None else 1
    above = _above(module, around or _top_level(module, found.statements[0]))
    lead, gap = newline * max(0, apart - _blank(module, above)), newline * apart
    call, bindings = made.call, []
    for line, start, indent in _unbound(module, found, scope):
        if start >= made.span.start:
            call = f"{indent}{line}{newline}{call}"
        else:
            bindings.append((start, f"{indent}{line}{newline}"))
    return Moved(above, lead + made.definition + gap, made.span, call, tuple(bindings))


def _within(name: str, plain: Collection[str]) -> str:
    """What a name is called within the function: an attribute has no name of a variable's own there."""
    bare = name.removeprefix("self.")
    return f"self_{bare}" if bare != name and bare in plain else bare


def _left_open(found: Region) -> dict[str, str]:
    """The attributes that are written on a condition alone, and how to get what they are else."""
    sure = {*surely_written(found.statements), *found.inputs}
    parts = {name: name.rpartition(".") for name in found.outputs if name not in sure and "." in name}
    return {name: f'getattr({owner}, "{last}", None)' for name, (owner, _, last) in parts.items()}


def _unbound(module: ParsedFile, found: Region, scope: Scope) -> Iterator[tuple[str, int, str]]:
    """The line that binds each input that may not be bound, where it goes, and its indent."""
    source = module.source
    inputs = set(found.inputs) - surely_written(found.ahead) - surely_read(found.statements)
    for name, statement in binders(sorted(inputs), found.span[0], scope, module.answers):
        start = source.line_starts[first_row(statement) - 1]
        yield f"{name} = None", start, source.text[start : source.span(statement).start].split("@")[0]


def _top_level(module: ParsedFile, node: ast.stmt) -> ast.stmt:
    body = module.source.tree.body
    return next(s for s in body if s.lineno <= node.lineno <= (s.end_lineno or s.lineno))


def _above(module: ParsedFile, statement: ast.stmt) -> int:
    """The offset of the line above which a definition goes: over decorators and comments."""
    source = module.source
    row = first_row(statement)
    while row > 1 and source.line(row - 1).lstrip().startswith("#"):
        row -= 1
    return source.line_starts[row - 1]


def _blank(module: ParsedFile, offset: int) -> int:
    """How many blank lines there are above a line."""
    lines = module.source.text[:offset].splitlines()
    return next((i for i, line in enumerate(reversed(lines)) if line.strip()), len(lines))
