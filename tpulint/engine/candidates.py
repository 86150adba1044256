"""Which nodes of a file each handler of a rule is called with."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from tpulint.engine.matching import Match, matches
from tpulint.model.names.index import Index, Place
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.registry import rules
from tpulint.rules_api import Rule
from tpulint.rules_api.pattern import Pattern
from tpulint.rules_api.rule import Handler


class _Asking(NamedTuple):
    """All handlers, and which of them want what by their numbers.

    `wanted` lists them by the kind of names that they go by and by name; `always` are those that go by none,
    and `patterns` those that go by patterns.
    """

    handlers: list[tuple[Rule, Handler]]
    always: list[int]
    wanted: dict[str, dict[str, set[int]]]
    patterns: dict[int, Pattern]


def concerned(module: ParsedFile) -> Iterator[tuple[Rule, Handler]]:
    """The handlers, in the order of the rules, for which a file may have places; most files have few.

    The names that a file uses are looked up among those that the handlers want, once for all handlers.
    """
    asking = _asking(rules())
    found = set(asking.always)
    for kind, listed in _listings(module.index):
        names = asking.wanted[kind]
        for name in listed.keys() & names.keys():
            found |= names[name]
    text = module.source.text
    found |= {number for number, pattern in asking.patterns.items() if pattern.may_be_in(text)}
    return (asking.handlers[number] for number in sorted(found))


def candidates(module: ParsedFile, handler: Handler) -> Iterator[Match]:
    """The nodes that a handler wants to see, traced or not."""
    where = handler.where
    if handler.pattern is not None:
        patterns = _asking(rules()).patterns.values()
        found = matches(module, handler.pattern, list(dict.fromkeys([*patterns, handler.pattern])))
        yield from (match for match in found if where is None or where(match.node))
        return
    for node, scope in _places(module, handler):
        if where is None or where(node):
            yield Match(node, scope, node)


def _listings(index: Index) -> Iterator[tuple[str, Mapping[str, object]]]:
    """What a file has by name, and which names of the handlers' it answers to."""
    yield "Call", index.calls
    yield "Call", index.aliases
    yield "Attribute", index.taken
    yield "Constant", index.texts
    yield "passing", index.passing


@cache
def _asking(known: tuple[Rule, ...]) -> _Asking:
    asking = _Asking(
        [(rule, handler) for rule in known for handler in rule.handlers],
        [],
        {kind: {} for kind in ("Call", "Attribute", "Constant", "passing")},
        {},
    )
    for number, (_, handler) in enumerate(asking.handlers):
        if handler.pattern is not None:
            asking.patterns[number] = handler.pattern
            continue
        names = handler.passing or handler.named
        if not names or callable(names):
            asking.always.append(number)
            continue
        listed = asking.wanted["passing" if handler.passing else handler.node.__name__]
        for name in names:
            listed.setdefault(name, set()).add(number)
    return asking


def _places(module: ParsedFile, handler: Handler) -> list[Place]:
    index = module.index
    if handler.node is ast.Module:
        return [(module.source.tree, index.module)]
    if handler.passing and not handler.named:
        return [place for name in sorted(handler.passing) for place in index.passing.get(name, ())]
    if handler.node is ast.Attribute:
        listed = index.taken
    elif handler.node is ast.Constant:
        listed = index.texts
    elif handler.named:
        listed = index.calls
    else:
        return index.nodes[handler.node]
    names = _names(handler.named, listed)
    if handler.node is ast.Call and not callable(handler.named):
        names.update(*(index.aliases[name] for name in _names(handler.named, index.aliases)))
    places = [place for name in sorted(names) for place in listed.get(name, ())]
    if handler.passing:
        return [place for place in places if _passes(place[0], handler.passing)]
    return places


def _passes(node: ast.AST, words: frozenset[str]) -> bool:
    """Whether a node is a call that passes a keyword argument of one of these names."""
    return isinstance(node, ast.Call) and any((word.arg or "**") in words for word in node.keywords)


def _names(wanted: frozenset[str] | Callable[[str], bool], known: Mapping[str, object]) -> set[str]:
    if callable(wanted):
        return {name for name in known if wanted(name)}
    return {*(wanted & known.keys() if wanted else known)}
