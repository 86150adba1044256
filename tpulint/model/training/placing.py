"""Where the function goes that a region of statements becomes, and what takes the region's place."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tpulint.model.names.references import method_around
from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.bound import binders, surely_read, surely_written
from tpulint.model.training.extraction import extraction
from tpulint.model.training.regions import Region
from tpulint.plan import Kind, Rewrite, path_of
from tpulint.source import first_row

if TYPE_CHECKING:
    from tpulint.model.syntax.parsed_file import ParsedFile
    from tpulint.model.training.changing import Changing


def placed(
    module: ParsedFile, changing: Changing, found: Region, scope: Scope, name: str, decorator: str
) -> list[Rewrite] | None:
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
    above = around or _top_level(module, found.statements[0])
    made = extraction(
        module,
        found,
        name,
        decorator,
        parameters,
        results,
        left_open,
        above=above,
        is_method=around is not None,
    )
    if made is None:
        return None
    source, (first, *_) = module.source, found.span
    call, bindings = made.call, []
    for line, statement in _unbound(found, scope, module):
        if first_row(statement) >= first.lineno:
            code, *counts = call.code
            call = replace(call, code=(f"{line}{source.newline}{source.margin(first)}{code}", *counts))
        else:
            bindings.append(Rewrite(path_of(statement, module.parent), Kind.INSERT_BEFORE, (line,)))
    return [made.definition, call, *bindings]


def _within(name: str, plain: Collection[str]) -> str:
    """What a name is called within the function: an attribute has no name of a variable's own there."""
    bare = name.removeprefix("self.")
    return f"self_{bare}" if bare != name and bare in plain else bare


def _left_open(found: Region) -> dict[str, str]:
    """The attributes that are written on a condition alone, and how to get what they are else."""
    sure = {*surely_written(found.statements), *found.inputs}
    parts = {name: name.rpartition(".") for name in found.outputs if name not in sure and "." in name}
    return {name: f'getattr({owner}, "{last}", None)' for name, (owner, _, last) in parts.items()}


def _unbound(found: Region, scope: Scope, module: ParsedFile) -> Iterator[tuple[str, ast.stmt]]:
    """The line that binds each input that may not be bound, and the statement that it goes before."""
    inputs = set(found.inputs) - surely_written(found.ahead) - surely_read(found.statements)
    for name, statement in binders(sorted(inputs), found.span[0], scope, module.answers):
        yield f"{name} = None", statement


def _top_level(module: ParsedFile, node: ast.stmt) -> ast.stmt:
    body = module.source.tree.body
    return next(s for s in body if s.lineno <= node.lineno <= (s.end_lineno or s.lineno))
