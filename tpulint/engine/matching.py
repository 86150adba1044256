"""The nodes of a file that the patterns of rules match.

A file is opened with LibCST only if it has the names of a pattern, and then without the functions and classes
that no match can be in. Nodes are looked for in the tree of `ast`, and compared in that of LibCST.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.plan import ONLY, NodePath, path_of
from tpulint.rules_api.pattern import Pattern
from tpulint.source import first_row


class Match(NamedTuple):
    """A node that a pattern matches, in the tree of `ast` and in that of LibCST, and its scope."""

    node: ast.AST
    scope: Scope
    given: object


def matches(module: ParsedFile, pattern: Pattern, patterns: Sequence[Pattern]) -> list[Match]:
    """The matches of a pattern.

    Args:
        module: the file.
        pattern: the pattern.
        patterns: all patterns that the file is asked for, so that it is opened once.
    """
    if _compared not in module.answers:
        module.answers[_compared] = _compared(module, patterns)
    compared: dict[Pattern, list[tuple[ast.AST, object]]] = module.answers[_compared]
    nodes = compared[pattern]
    if not nodes:
        return []
    from libcst import matchers

    matcher = _matcher(pattern)
    return [
        Match(node, module.scope_of(node), given)
        for node, given in nodes
        if matchers.matches(given, matcher)  # type: ignore[arg-type]
    ]


def _compared(module: ParsedFile, patterns: Sequence[Pattern]) -> dict[Pattern, list[tuple[ast.AST, object]]]:
    """The nodes of both trees that are to be compared with each pattern."""
    text = module.source.text
    places = {
        pattern: list(_places(module, pattern)) if pattern.may_be_in(text) else [] for pattern in patterns
    }
    paths = {path for group in places.values() for _, path in group}
    nowhere: dict[Pattern, list[tuple[ast.AST, object]]] = {pattern: [] for pattern in patterns}
    if not paths:
        return nowhere
    # LibCST is imported only where a rule has a pattern, and the file its names.
    from tpulint.rewrite.tree import RefusedError, Tree

    try:
        tree = module.answers[Tree] = Tree(module.source, paths)
    except RefusedError:
        return nowhere
    return {
        one: [(node, given) for node, path in found if (given := tree.at(path)) is not None]
        for one, found in places.items()
    }


@cache
def _matcher(pattern: Pattern) -> Any:
    from tpulint.rules_api.matchers import in_libcst

    try:
        return in_libcst(pattern.matcher)
    except (AttributeError, TypeError) as error:
        raise TypeError(f"no pattern of `libcst.matchers`: {error}") from error


def _places(module: ParsedFile, pattern: Pattern) -> Iterator[tuple[ast.AST, NodePath]]:
    """The nodes that a pattern may match, with their paths: of its types, and with its names."""
    if pattern.called:
        yield from _calls(module, pattern)
        return
    source = module.source
    rows = [
        [source.location(found.start()).row for found in search.finditer(source.text)]
        for search in pattern.searches
    ]
    waiting: list[tuple[ast.AST, NodePath, bool]] = [(source.tree, (), False)]
    while waiting:
        node, path, is_formatted = waiting.pop()
        if isinstance(node, pattern.nodes) and _spells(node, pattern):
            yield node, path
        # Before Python 3.12, the parser gives what stands in f-strings wrong lines.
        is_formatted |= isinstance(node, ast.JoinedStr)
        for name, value in ast.iter_fields(node):
            parts = enumerate(value) if isinstance(value, list) else [(ONLY, value)]
            for index, part in parts:
                if isinstance(part, ast.AST) and (is_formatted or _has_names(part, rows)):
                    waiting.append((part, (*path, (name, index)), is_formatted))


def _calls(module: ParsedFile, pattern: Pattern) -> Iterator[tuple[ast.AST, NodePath]]:
    """The calls that a pattern may match whose callee ends in one of its names, or in another name for it."""
    index = module.index
    names = pattern.called.union(*(index.aliases.get(name, ()) for name in pattern.called))
    for name in sorted(names):
        for node, _ in index.calls.get(name, ()):
            if isinstance(node, pattern.nodes) and _spells(node, pattern):
                yield node, path_of(node, module.parent)


def _spells(node: ast.AST, pattern: Pattern) -> bool:
    """Whether code of a node, and no string or comment, has the names of a pattern."""
    if not pattern.names:
        return True
    spelled = set(_identifiers(node))
    return all(any(name in spelled or not _is_plain(name) for name in names) for names in pattern.names)


def _is_plain(name: str) -> bool:
    """Whether a name is an identifier that `ast` has as it is written; literals, and some letters, differ."""
    return name.isascii() and name.isidentifier()


def _identifiers(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant | ast.MatchSingleton):
            yield repr(part.value)  # `True`, `False` and `None` are names in LibCST
            continue
        for _, value in ast.iter_fields(part):
            for name in value if isinstance(value, list) else (value,):
                if isinstance(name, str):
                    yield from name.split(".")


def _has_names(node: ast.AST, rows: list[list[int]]) -> bool:
    """Whether each list has a row of a node; one without rows has those of the node around it."""
    if not isinstance(node, ast.stmt | ast.expr | ast.ExceptHandler):
        return not isinstance(node, ast.expr_context | ast.operator | ast.boolop | ast.unaryop | ast.cmpop)
    first = first_row(node) if isinstance(node, ast.stmt) else node.lineno
    last = node.end_lineno or node.lineno
    return all((at := bisect_left(found, first)) < len(found) and found[at] <= last for found in rows)
