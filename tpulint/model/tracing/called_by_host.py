"""Modules whose `forward` only the host can call, or calls: nobody jits them by themselves."""

from __future__ import annotations

from tpulint.model.project.facts import FunctionFacts
from tpulint.model.project.project import ProjectFacts


def is_called_by_host(project: ProjectFacts, cls: str, forward: FunctionFacts) -> bool:
    """Whether a module's `forward` is host code unless something traced is seen to call it.

    So it is where it takes a module, as an average of weights does, and where a module that holds nothing
    makes pictures or files, or keeps no gradients and all its instances are entries of plain dictionaries,
    as those are that make results of a model's outputs.
    """
    if forward.takes_module:
        return True
    if not (forward.files or forward.infers) or not _holds_nothing(project, cls):
        return False
    return forward.files or _is_entry(project, cls)


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


def _is_entry(project: ProjectFacts, cls: str) -> bool:
    """Whether each instance that the project makes of a class is put into a dictionary as it is made."""
    made = entered = 0
    for module in project.modules.values():
        entered += sum(project.resolve(name) == cls for name in module.entries)
        calls = (*module.starts, *(call for facts in module.functions.values() for call in facts.calls))
        made += sum(
            call.callee.startswith("name:") and project.resolve(call.callee[5:]) == cls for call in calls
        )
    return 0 < made == entered
