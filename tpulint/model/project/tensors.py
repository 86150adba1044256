"""Which parameters are tensors, as functions of the whole project tell each other by their calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tpulint.model.project.handing import A_TENSOR, PLAIN

if TYPE_CHECKING:
    from tpulint.model.project.project import ProjectFacts

#: A function, by its qualified name, and one of its parameters.
Parameter = tuple[str, str]


class Tensors(NamedTuple):
    """Parameters that can be nothing but tensors, and those that calls hand tensors to.

    Of the first, the function itself or one that it hands them to says so. The second are tensors as far as
    the project's own calls show it.
    """

    proven: frozenset[Parameter]
    handed: frozenset[Parameter]


def tensors_of(project: ProjectFacts) -> Tensors:
    """Follow what functions hand to each other: backwards from what is proven, and forwards to callees."""
    proven: set[Parameter] = set()
    plain: set[Parameter] = set()
    forwards: dict[Parameter, set[Parameter]] = {}
    backwards: dict[Parameter, set[Parameter]] = {}
    starts: set[Parameter] = set()
    for target, source in _edges(project):
        if source is None:
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
    return Tensors(frozenset(proven), frozenset(handed))


def _spread(found: set[Parameter], edges: dict[Parameter, set[Parameter]], allowed: set[Parameter]) -> None:
    """Add all that edges lead to from what is found, as far as it is allowed."""
    waiting = deque(found)
    while waiting:
        for reached in edges.get(waiting.popleft(), ()):
            if reached not in found and reached in allowed:
                found.add(reached)
                waiting.append(reached)


def _edges(project: ProjectFacts) -> Iterator[tuple[Parameter, Parameter | None]]:
    """Each parameter that a call fills: with another one, with a tensor (itself), or with a plain value."""
    for module in project.modules.values():
        for qualname, facts in module.functions.items():
            caller = f"{module.name}.{qualname}"
            owner = f"{module.name}.{facts.owner}" if facts.owner is not None else None
            for handed in facts.hands:
                for callee in project.callees(handed.callee, owner):
                    taken = project.function(callee)
                    if taken is None:
                        continue
                    place = handed.place
                    if place.isdigit():
                        number = int(place)
                        if number >= len(taken.by_place):
                            continue
                        place = taken.by_place[number]
                    target = (callee, place)
                    if handed.value == PLAIN:
                        yield target, None
                    else:
                        yield target, target if handed.value == A_TENSOR else (caller, handed.value)
