"""The calls of a project: which functions references mean, and which parameters are tensors."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from tpulint.model.project.callees import Callees
from tpulint.model.project.facts import ModuleFacts
from tpulint.model.project.modules import ModuleClasses
from tpulint.model.project.tensors import Tensors, tensors_of


class CallGraph(ModuleClasses):
    """The functions and classes of a project, and how they call each other."""

    def __init__(self, modules: Iterable[ModuleFacts]) -> None:
        super().__init__(modules)
        self._callees = Callees(self, self.instances_passed)

    def callees(self, reference: str, owner: str | None) -> Iterable[str]:
        """The project's functions that a reference may mean, for a method of class `owner`."""
        return self._callees.of(reference, owner)

    @cached_property
    def tensors(self) -> Tensors:
        """The parameters that are tensors by what functions do with them and pass to each other."""
        return tensors_of(self, self.callees)

    def instances_passed(self, function: str, parameter: str) -> Iterable[str]:
        """References to the calls of the instances that calls pass to a parameter."""
        return self.tensors.instances.get((function, parameter), ())

    def is_proven_tensor(self, function: str, parameter: str) -> bool:
        """Whether a parameter can be nothing but a tensor, by what is done with it."""
        return (function, parameter) in self.tensors.proven

    def is_handed_tensor(self, function: str, parameter: str) -> bool:
        """Whether the project's calls hand tensors to a parameter, as far as they show it."""
        return (function, parameter) in self.tensors.handed
