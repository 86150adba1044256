"""Which devices the functions and modules of a project name, and which values become devices."""

from __future__ import annotations

from functools import cached_property

from tpulint.knowledge.runtime import is_of_runtime
from tpulint.model.project.call_graph import CallGraph
from tpulint.model.project.chosen import ANYTHING
from tpulint.model.project.device_flow import DeviceFlow, defined
from tpulint.model.project.import_graph import ImportGraph


class DeviceUse(CallGraph, ImportGraph):
    """The calls and imports of a project, with the flow of devices through them."""

    @cached_property
    def _devices(self) -> DeviceFlow:
        """How devices are passed on, in all modules but those of a vendored runtime."""
        own = (facts for facts in self.modules.values() if not is_of_runtime(facts.name))
        edges = (edge for facts in own for edge in facts.handed)
        return DeviceFlow((self._place(target), self._place(source)) for target, source in edges)

    def _place(self, place: str) -> str:
        return defined(place, self)

    def is_device(self, place: str) -> bool:
        """Whether what is handed to a place of the device flow ends where torch takes a device."""
        return self._devices.is_device(self._place(place))

    def device_origins(self, place: str) -> frozenset[str]:
        """All that may stand at the beginning of what a place of the device flow holds."""
        return self._devices.origins(self._place(place))

    def takes_literal(self, owner: str) -> bool:
        """Whether a function, or a module's own code, gives torch a device that a literal names."""
        return self._devices.takes_literal(owner)

    @cached_property
    def placing(self) -> set[str]:
        """Modules that put something on a device as they are imported, and all that import them."""
        return self.users(
            name for name, facts in self.modules.items() if facts.places or self._devices.takes_literal(name)
        )

    @cached_property
    def may_put(self) -> set[str]:
        """Modules that put something on a device or import what does, of programs that train.

        A module that looks up what a configuration names need not be part of one that trains.
        """
        placing = (name for name, facts in self.modules.items() if facts.placed_anywhere)
        making = self.users(name for name, facts in self.modules.items() if ANYTHING in facts.chosen)
        return self.users(placing) & (self.programs.training | making)
