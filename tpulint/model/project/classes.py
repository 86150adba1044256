"""The classes of a project: their ancestors, methods and attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from tpulint.model.project.definitions import Definitions
from tpulint.model.project.facts import ModuleFacts


class Classes(Definitions):
    """The definitions of a project, with its classes put in order."""

    def __init__(self, modules: Iterable[ModuleFacts]) -> None:
        super().__init__(modules)
        self._mro: dict[str, tuple[str, ...]] = {}
        self._heirs: dict[str, list[str]] = {}
        for name, facts in self._all_classes():
            for base in facts.bases:
                self._heirs.setdefault(self.resolve(base), []).append(name)

    def mro(self, name: str) -> tuple[str, ...]:
        """A class and its ancestors, nearest first, those from outside the project at their places."""
        if name not in self._mro:
            self._mro[name] = (name,)
            order: dict[str, None] = {name: None}
            facts = self.class_(name)
            for base in facts.bases if facts is not None else ():
                order.update(dict.fromkeys(self.mro(self.resolve(base))))
            self._mro[name] = tuple(order)
        return self._mro[name]

    def method(self, cls: str, name: str) -> str | None:
        """Whether the project implements the method; its qualified name, or None."""
        for ancestor in self.mro(cls):
            facts = self.class_(ancestor)
            if facts is not None and name in facts.methods:
                return f"{ancestor}.{name}"
        return None

    def attribute_classes(self, cls: str, name: str) -> tuple[str, ...]:
        """Classes that are instantiated for an attribute."""
        for ancestor in self.mro(cls):
            facts = self.class_(ancestor)
            if facts is not None and name in facts.modules:
                return tuple(self.resolve(made) for made in facts.modules[name])
        return ()

    def is_tensor_attribute(self, cls: str, name: str) -> bool:
        """Whether the attribute is a parameter or a buffer."""
        return any(
            facts is not None and name in facts.tensors
            for facts in map(self.class_, self.mro(self.resolve(cls)))
        )

    def is_computed(self, cls: str, name: str) -> bool:
        """Whether a class is a module whose `forward` leaves something in an attribute."""
        return any(
            facts is not None and name in facts.computed
            for facts in map(self.class_, self.mro(self.resolve(cls)))
        )

    @cached_property
    def computed(self) -> frozenset[str]:
        """The attributes in which any class's `forward` leaves something."""
        return frozenset(name for _, facts in self._all_classes() for name in facts.computed)

    def heirs(self, cls: str) -> Iterator[str]:
        """All classes below a class."""
        seen: set[str] = set()
        waiting = [*self._heirs.get(cls, ())]
        while waiting:
            heir = waiting.pop()
            if heir not in seen:
                seen.add(heir)
                yield heir
                waiting.extend(self._heirs.get(heir, ()))

    @cached_property
    def overridden(self) -> frozenset[str]:
        """The methods that classes below define anew."""
        return frozenset(
            f"{name}.{method}"
            for name in self._heirs
            if (facts := self.class_(name)) is not None
            for heir in self.heirs(name)
            if (below := self.class_(heir)) is not None
            for method in {*facts.methods} & {*below.methods}
        )
