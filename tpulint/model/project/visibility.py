"""What each module can see of the others, as digests that change when any of it changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from tpulint.knowledge.training import TRAINING
from tpulint.model.project.project import ProjectFacts


def visible_digests(project: ProjectFacts) -> dict[str, str]:
    """For each module, a digest of all that the judgement of its file depends on besides its text.

    That is the facts of the modules that it sees through imports, the chains that reach its functions,
    whether it is imported itself, from which package, and by a program that uses a device, computes gradients
    or reads configurations, whether the project has the folder for training, what becomes of the devices
    that it hands on, which functions of the project call `backward` on what they are given, which of its
    methods classes define anew, whether fixes keep CUDA, and what they set up where a program starts.
    Modules that import each other share what they see, so each group of them is digested once, from its own
    facts and the digests of the groups that it imports: linear in the project.
    """
    seen: dict[str, bytes] = {}
    for group in components(project.imports):
        parts = sorted(_digest(repr(project.modules[name]).encode()) for name in group)
        below = {seen[target] for name in group for target in project.imports[name] if target not in group}
        digest = _digest(b"".join([*parts, *sorted(below)]))
        seen.update(dict.fromkeys(group, digest))
    chains: dict[str, list[str]] = {}
    for function in project.reach:
        found = project.home(function)
        if found is not None:
            chains.setdefault(found[0], []).append(f"{function} {project.trace_path(function)!r}")
    redefined: dict[str, list[str]] = {}
    for method in project.overridden:
        found = project.home(method)
        if found is not None:
            redefined.setdefault(found[0], []).append(method)
    several = (*map(sorted, (project.asked_of_others, project.kept_by_marked, project.computed)),)
    told = repr((project.takers, project.savers, project.environment, *several)).encode()
    imported = {target for targets in project.imports.values() for target in targets}
    return {
        name: _digest(
            digest,
            project.programs.told(name),
            bytes([name in imported, project.keeps_gpu, project.is_of_package(name)]),
            bytes([project.imports_any(TRAINING.name)]),
            project.package(name).encode(),
            project.companion_package(name).encode(),
            told,
            _devices(project, name).encode(),
            *map(str.encode, sorted(chains.get(name, ()))),
            *map(str.encode, sorted(redefined.get(name, ()))),
        ).hex()
        for name, digest in seen.items()
    }


def _devices(project: ProjectFacts, name: str) -> str:
    """All that can be asked of the devices that one file hands on."""
    places = sorted({place for edge in project.modules[name].handed for place in edge})
    return repr(
        [(place, project.is_device(place), sorted(project.device_origins(place))) for place in places]
    )


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.digest()


def components(edges: Mapping[str, Iterable[str]]) -> list[frozenset[str]]:
    """Groups of nodes that reach each other, each behind all the groups that it points to (Tarjan)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    stacked: set[str] = set()
    groups: list[frozenset[str]] = []
    for start in edges:
        if start in number:
            continue
        walk = [(start, iter(edges[start]))]
        number[start] = lowest[start] = len(number)
        stack.append(start)
        stacked.add(start)
        while walk:
            node, targets = walk[-1]
            for target in targets:
                if target not in number:
                    number[target] = lowest[target] = len(number)
                    stack.append(target)
                    stacked.add(target)
                    walk.append((target, iter(edges[target])))
                    break
                if target in stacked:
                    lowest[node] = min(lowest[node], number[target])
            else:
                walk.pop()
                if walk:
                    lowest[walk[-1][0]] = min(lowest[walk[-1][0]], lowest[node])
                if lowest[node] == number[node]:
                    cut = stack.index(node)
                    group = frozenset(stack[cut:])
                    del stack[cut:]
                    stacked -= group
                    groups.append(group)
    return groups
