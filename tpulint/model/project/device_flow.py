"""Which names hand on a device, and what stands behind a flag that says whether there is one.

A program names its device in one place and takes it in another: a default of an argument parser becomes
`args.device`, a field of a configuration a parameter, a module's constant an import. `devices.edges` says for
each file what is handed to what; here the project's edges are put together. Places are strings:

=               =====================================================================================
`device`        torch takes it as a device
`choice`        it is compared with a device's name, and may be what chooses one
`.name`         an attribute, a key or a command-line option, whatever has it
`G mod.NAME`    a variable of a module
`L mod.f name`  a variable of a function
`P mod.f name`  a parameter
`R f`           what functions of this name return
`E mod.Class`   the value of a member of an enumeration
`[...]`         the keys of the mapping that stands in a place
`K f name`      the keyword argument of a call of what has this name, `K f 0` the first positional one
`D mod.f`       what torch takes as a device in a function, or in a module's own code
`K f **`        a mapping that a call unpacks; `K f **name` what it may have under a name
`cuda`          a literal that names a device of CUDA's or of torchax's
`cuda?`         an answer to whether there is CUDA
`given`         a constant, an option of the user's or an answer that is true of torchax as well
`off`           a constant that turns a flag off
`text`          what is read at run time
`?`             anything else
=               =====================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

SINK = "device"
COMPARED = "choice"
LITERAL = "cuda"
ASKED = "cuda?"
GIVEN = "given"
OFF = "off"
TEXT = "text"
UNKNOWN = "?"
PRIMITIVE = frozenset({LITERAL, ASKED, GIVEN, OFF, TEXT, UNKNOWN})

#: What is handed on: to which place, from which.
Edge = tuple[str, str]


class Resolver(Protocol):
    """What is asked of a project."""

    def resolve(self, name: str) -> str:
        """The name of the definition behind a name."""

    def home(self, name: str) -> tuple[str, str] | None:
        """The name of the module that has a name, and the rest of it."""

    def is_enumeration(self, name: str) -> bool:
        """Whether a name is that of a class whose members have values."""


class DeviceFlow:
    """The edges of all files together, with the names of variables resolved."""

    def __init__(self, edges: Iterable[Edge]) -> None:
        self._sources: dict[str, set[str]] = {}
        targets: dict[str, set[str]] = {}
        for target, source in _unpacked(set(edges)):
            self._sources.setdefault(target, set()).add(source)
            targets.setdefault(source, set()).add(target)
        self._demanded = _reached({SINK}, self._sources) - PRIMITIVE
        for place in self._sources.get(COMPARED, set()) - PRIMITIVE:
            behind = _reached({place}, self._sources) - PRIMITIVE
            if not behind.isdisjoint(self._demanded):  # what is a device elsewhere is called so here, too
                self._demanded |= behind
        # A call that nobody makes hands on nothing; what nobody in the project writes is not known.
        unwritten = {place for place in targets if place not in self._sources and place[0] not in "PK"}
        self._begun = {end: _reached({end}, targets) for end in PRIMITIVE}
        self._begun[UNKNOWN] |= _reached(unwritten - PRIMITIVE, targets)

    def is_device(self, place: str) -> bool:
        """Whether what is handed to a place ends where torch takes a device."""
        # Functions of other packages are known by nothing but their names.
        return place in self._demanded and (place[0] != "R" or place in self._sources)

    def takes_literal(self, owner: str) -> bool:
        """Whether a function, or a module's own code, gives torch a device that a literal names."""
        return LITERAL in self.origins(f"D {owner}")

    def origins(self, place: str) -> frozenset[str]:
        """All that may stand at the beginning of what a place holds."""
        return frozenset(end for end in PRIMITIVE if place in self._begun[end]) or frozenset({UNKNOWN})


def defined(place: str, project: Resolver) -> str:
    """A place by the names of definitions.

    What an object or a class of a module has is an attribute like any other, but for members of enumerations.
    """
    if place.startswith("["):
        return f"[{defined(place[1:-1], project)}]"
    if not place.startswith("G "):
        return place
    owner, _, name = place[2:].rpartition(".")
    owner = project.resolve(owner)
    if project.is_enumeration(owner):
        return f"E {owner}"
    found = project.home(owner)
    return f".{name}" if found is not None and found[1] else f"G {project.resolve(place[2:])}"


def _unpacked(edges: set[Edge]) -> set[Edge]:
    """The edges, with those of what calls unpack: the fields of a mapping become parameters."""
    unpacking = {target for target, _ in edges if target.startswith("K ") and target.endswith("**")}
    named = ((source, *source.partition("**")) for _, source in edges if source.startswith("K "))
    return edges | {
        (source, f".{name}") for source, callee, _, name in named if f"{callee}**" in unpacking and name
    }


def _reached(starts: set[str], ways: dict[str, set[str]]) -> set[str]:
    """All places that ways lead to from some places, these among them."""
    seen = set(starts)
    waiting = list(starts)
    while waiting:
        fresh = ways.get(waiting.pop(), set()) - seen
        seen |= fresh
        waiting.extend(fresh)
    return seen
