"""Modules whose `forward` only the host can call, or calls: nobody jits them by themselves."""

from __future__ import annotations

from collections import Counter
from functools import cached_property

from tpulint.model.project.facts import FunctionFacts
from tpulint.model.project.project import ProjectFacts


class CalledByHost:
    """Finds such modules in one project."""

    def __init__(self, project: ProjectFacts) -> None:
        self._project = project

    def has(self, cls: str, forward: FunctionFacts) -> bool:
        """Whether a module's `forward` is host code unless something traced is seen to call it.

        So it is where it takes a module, as an average of weights does, and where a module that holds nothing
        makes pictures or files, or keeps no gradients and all its instances are entries of plain
        dictionaries, as those are that make results of a model's outputs.
        """
        if forward.takes_module:
            return True
        if not (forward.files or forward.infers) or not _holds_nothing(self._project, cls):
            return False
        return forward.files or cls in self._entries

    @cached_property
    def _entries(self) -> frozenset[str]:
        """Classes of which the project puts each instance into a dictionary as it is made."""
        project = self._project
        entered = Counter(
            project.resolve(name) for module in project.modules.values() for name in module.entries
        )
        made: Counter[str] = Counter()
        for module in project.modules.values():
            calls = (*module.starts, *(call for facts in module.functions.values() for call in facts.calls))
            made.update(project.resolve(call.callee[5:]) for call in calls if call.callee.startswith("name:"))
        return frozenset(cls for cls, times in entered.items() if made[cls] == times)


def _holds_nothing(project: ProjectFacts, cls: str) -> bool:
    """Whether a module has no parameters, no buffers, no other modules, and calls none that it is given."""
    for ancestor in project.mro(cls):
        facts = project.class_(ancestor)
        if facts is None:
            continue
        held = (made for classes in facts.modules.values() for made in classes)
        if facts.tensors or any(map(project.is_module_class, held)):
            return False
        for method in facts.methods:
            function = project.function(f"{ancestor}.{method}")
            for call in function.calls if function is not None else ():
                if call.callee.startswith("self:") and not any(project.callees(call.callee, cls)):
                    return False
    return True
