"""Which parameters are tensors, as functions of the whole project tell each other by their calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from tpulint.model.project.definitions import Definitions
from tpulint.model.project.handing import A_TENSOR, PLAIN, Handed

#: A function, by its qualified name, and one of its parameters.
Parameter = tuple[str, str]
#: The functions that a reference may mean, for a method of a class.
Callees = Callable[[str, str | None], Iterable[str]]


class Tensors(NamedTuple):
    """Parameters that can be nothing but tensors, and those that calls hand tensors or instances to.

    Of the first, the function itself or one that it hands them to says so. The second are tensors as far as
    the project's own calls show it. Of the third there are references to the calls of the instances.
    """

    proven: frozenset[Parameter]
    handed: frozenset[Parameter]
    instances: Mapping[Parameter, tuple[str, ...]]


def tensors_of(project: Definitions, callees: Callees) -> Tensors:
    """Follow what functions hand to each other: backwards from what is proven, and forwards to callees."""
    proven: set[Parameter] = set()
    plain: set[Parameter] = set()
    forwards: dict[Parameter, set[Parameter]] = {}
    backwards: dict[Parameter, set[Parameter]] = {}
    starts: set[Parameter] = set()
    instances: dict[Parameter, dict[str, None]] = {}
    for target, source in _edges(project, callees):
        if isinstance(source, str):
            instances.setdefault(target, {})[source] = None
        elif source is None:
            plain.add(target)
        elif source == target:
            starts.add(target)
        else:
            forwards.setdefault(source, set()).add(target)
            backwards.setdefault(target, set()).add(source)
    undeclared = set[Parameter]()
    for module in project.modules.values():
        for qualname, facts in module.functions.items():
            name = f"{module.name}.{qualname}"
            proven.update((name, parameter) for parameter in facts.tensors)
            undeclared.update((name, parameter) for parameter in facts.undeclared)
    _spread(proven, backwards, undeclared - plain)
    handed = proven | (starts & undeclared - plain)
    _spread(handed, forwards, undeclared - plain)
    found = {parameter: tuple(references) for parameter, references in instances.items()}
    return Tensors(frozenset(proven), frozenset(handed), found)


def _spread(found: set[Parameter], edges: dict[Parameter, set[Parameter]], allowed: set[Parameter]) -> None:
    """Add all that edges lead to from what is found, as far as it is allowed."""
    waiting = deque(found)
    while waiting:
        for reached in edges.get(waiting.popleft(), ()):
            if reached not in found and reached in allowed:
                found.add(reached)
                waiting.append(reached)


def _edges(project: Definitions, callees: Callees) -> Iterator[tuple[Parameter, Parameter | str | None]]:
    """Each parameter that a call fills: with another, a tensor (itself), an instance, or a plain value."""
    for module in project.modules.values():
        for handed in module.hands:
            yield from _edge(project, callees, "", None, handed)
        for qualname, facts in module.functions.items():
            owner = f"{module.name}.{facts.owner}" if facts.owner is not None else None
            for handed in facts.hands:
                yield from _edge(project, callees, f"{module.name}.{qualname}", owner, handed)


def _edge(
    project: Definitions, callees: Callees, caller: str, owner: str | None, handed: Handed
) -> Iterator[tuple[Parameter, Parameter | str | None]]:
    for callee in callees(handed.callee, owner):
        taken, place = project.function(callee), handed.place
        if taken is None:
            continue
        if place.isdigit():
            if int(place) >= len(taken.by_place):
                continue
            place = taken.by_place[int(place)]
        target = (callee, place)
        if ":" in handed.value:
            yield target, handed.value
        elif handed.value == PLAIN:
            yield target, None
        else:
            yield target, target if handed.value == A_TENSOR else (caller, handed.value)
