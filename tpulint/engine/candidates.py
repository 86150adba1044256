"""Which places of a file each handler of a rule is shown."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import cache

from tpulint.model.module import Module
from tpulint.model.scopes import Index, Place, Scope
from tpulint.registry import rules
from tpulint.rule import Handler, Rule


def concerned(module: Module) -> Iterator[tuple[Rule, Handler]]:
    """The handlers, in the order of the rules, for which a file may have places; most files have few.

    The names that a file uses are looked up among those that the handlers want, once for all handlers.
    """
    handlers, always, wanted = _handlers()
    found = set(always)
    for kind, listed in _listings(module.index):
        names = wanted[kind]
        for name in listed.keys() & names.keys():
            found |= names[name]
    return (handlers[number] for number in sorted(found))


def candidates(module: Module, handler: Handler) -> Iterator[tuple[ast.AST, Scope]]:
    """The places that a handler wants to see, traced or not."""
    for place in _places(module, handler):
        if handler.where is None or handler.where(place[0]):
            yield place


def _listings(index: Index) -> Iterator[tuple[str, Mapping[str, object]]]:
    """What a file has by name, and which names of the handlers' it answers to."""
    yield "Call", index.calls
    yield "Call", index.aliases
    yield "Attribute", index.taken
    yield "Constant", index.texts
    yield "passing", index.passing


@cache
def _handlers() -> tuple[list[tuple[Rule, Handler]], list[int], dict[str, dict[str, set[int]]]]:
    """All handlers, the numbers of those that go by no list of names, and of the others by what they want."""
    handlers = [(rule, handler) for rule in rules() for handler in rule.handlers]
    always: list[int] = []
    wanted: dict[str, dict[str, set[int]]] = {
        kind: {} for kind in ("Call", "Attribute", "Constant", "passing")
    }
    for number, (_, handler) in enumerate(handlers):
        names = handler.passing or handler.named
        if not names or callable(names):
            always.append(number)
            continue
        listed = wanted["passing" if handler.passing else handler.node.__name__]
        for name in names:
            listed.setdefault(name, set()).add(number)
    return handlers, always, wanted


def _places(module: Module, handler: Handler) -> list[Place]:
    index = module.index
    if handler.node is ast.Module:
        return [(module.source.tree, index.module)]
    if handler.passing:
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
    return [place for name in sorted(names) for place in listed.get(name, ())]


def _names(wanted: frozenset[str] | Callable[[str], bool], known: Mapping[str, object]) -> set[str]:
    if callable(wanted):
        return {name for name in known if wanted(name)}
    return {*(wanted & known.keys() if wanted else known)}
