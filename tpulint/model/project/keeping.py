"""Modules that keep something from call to call, such as a cache, a count or running statistics."""

from __future__ import annotations

from tpulint.model.project.classes import Classes

#: Modules of torch that count or average what they are called with.
OF_TORCH = ("BatchNorm", "InstanceNorm", "SyncBatchNorm", "LazyBatchNorm", "LazyInstanceNorm")


def keeps_state(project: Classes, cls: str) -> bool:
    """Whether a module of a class, or one within it, may keep something from call to call."""
    seen: set[str] = set()
    waiting = [cls]
    while waiting:
        one = project.resolve(waiting.pop())
        if one in seen:
            continue
        seen.add(one)
        for ancestor in project.mro(one):
            facts = project.class_(ancestor)
            if facts is None:
                if is_of_torch(ancestor):
                    return True
                continue
            if facts.changes_itself:
                return True
            waiting += [made for held in facts.modules.values() for made in held]
    return False


def is_of_torch(name: str) -> bool:
    """Whether a class is a module of torch that keeps statistics."""
    return name.startswith("torch.nn.") and name.rpartition(".")[2].startswith(OF_TORCH)
