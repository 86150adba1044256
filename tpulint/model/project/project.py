"""The project as a whole: what all modules together say of each."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from functools import cached_property

from tpulint.knowledge.targets import TORCHAX
from tpulint.knowledge.training import SCALERS
from tpulint.model.project.callees import Callees
from tpulint.model.project.device_use import DeviceUse
from tpulint.model.project.facts import ModuleFacts
from tpulint.model.project.placement import Placement
from tpulint.model.project.takers import Taker
from tpulint.model.project.trace_path import Step, TracePath


class ProjectFacts(DeviceUse):
    """What all modules together say; made by `link`, read by all that judges one file."""

    def __init__(self, modules: Iterable[ModuleFacts]) -> None:
        super().__init__(modules)
        self.reach: dict[str, Step] = {}
        #: The name of the library through which fixed programs use a TPU, one of `TARGETS`.
        self.target = TORCHAX.name
        #: Whether fixes leave CUDA what it has.
        self.keeps_gpu = False
        #: Whether the programs find the runtime torchax-compat.
        self.finds_runtime = True
        #: What else is set up where a program enters torchax; see `Settings.environment`.
        self.environment: tuple[str, ...] = ()
        #: The rules for the sharding of parameters, and the number of devices for that, or 0.
        self.sharding: tuple[tuple[tuple[str, tuple[str, ...]], ...], int] = (), 0
        self._placement = Placement(self)

    def apart(self, modules: Mapping[str, ModuleFacts]) -> ProjectFacts:
        """The same project with its modules' facts at another place, without the answers for single names.

        What concerns all modules at once is answered already, so that it takes none of them.
        """
        for cls in type(self).__mro__:
            for name, member in vars(cls).items():
                if isinstance(member, cached_property):
                    getattr(self, name)
        other = copy.copy(self)
        vars(other).update(modules=modules, _functions={}, _classes={}, _modules={})
        vars(other).update(_resolved={}, _mro={}, _annotations={})
        vars(other).update(_callees=Callees(other, other.instances_passed), _placement=Placement(other))
        return other

    @cached_property
    def takers(self) -> tuple[Taker, ...]:
        """The functions that call `backward` on what they are given."""
        own = (taker for facts in self.modules.values() for taker in facts.takers)
        of_libraries = (Taker(f"{cls}.__call__", 0, "loss") for cls in sorted(SCALERS & self.imported))
        return (*own, *of_libraries)

    @cached_property
    def asked_of_others(self) -> frozenset[str]:
        """The attributes of other objects on which `backward` is called."""
        return frozenset(name for facts in self.modules.values() for name in facts.asked_of_others)

    @cached_property
    def kept_by_marked(self) -> frozenset[str]:
        """The attributes into which methods put what functions give that JAX differentiates."""
        return frozenset(name for facts in self.modules.values() for name in facts.kept_by_marked)

    @cached_property
    def savers(self) -> tuple[Taker, ...]:
        """The functions that save what they are given."""
        return tuple(saver for facts in self.modules.values() for saver in facts.savers)

    def places(self, module: str) -> bool:
        """Whether the program that starts in a module puts something on a device, as far as calls show."""
        return self._placement.places(module)

    def put_on_device(self, functions: Iterable[str]) -> bool:
        """Whether one of some functions puts something on a device, or calls what does, or may do so."""
        return self._placement.put_on_device(functions)

    def puts_on_device(self, reference: str) -> bool:
        """Whether one of the functions that a reference may run puts something on a device."""
        return self.put_on_device(self._placement.callees(reference))

    def serves_device(self, module: str) -> bool:
        """Whether a program with this module uses a device or the torchax environment."""
        return module in self.programs.serving or self.places(module)

    def trace_path(self, function: str) -> TracePath | None:
        """The call chain by which the function is traced, from its root on; None if it is not traced."""
        steps: list[Step] = []
        current: str | None = function
        while current is not None:
            step = self.reach.get(current)
            if step is None or len(steps) > len(self.reach):
                return None
            steps.append(step)
            current = step.caller
        steps.reverse()
        return TracePath(tuple(steps), steps[0].certainty) if steps else None
