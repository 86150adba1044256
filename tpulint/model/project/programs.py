"""What the programs do that modules belong to: scripts with all that they import."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from tpulint.knowledge.runtime import DIFFERENTIABLE, FORMER_NAMES, is_of_runtime
from tpulint.knowledge.training import SCALERS
from tpulint.model.project.facts import ModuleFacts


class Programs(NamedTuple):
    """Names of modules, by what some program does that they are a part of.

    A package alone is no program: that it can train, too, says nothing of all that it offers.
    """

    serving: frozenset[str]
    """Those that name a device or enter torchax, what imports them, and what that imports."""
    entering: frozenset[str]
    """Those that enter the torchax environment."""
    training: frozenset[str]
    """Those that compute gradients with torch alone."""
    differentiated: frozenset[str]
    """Those that let JAX compute gradients."""
    calling_backward: frozenset[str]
    """Those that call `loss.backward()`, or a scaler."""
    grouped: frozenset[str]
    """Those that start a process group, and none for the host."""
    lacking_group: frozenset[str]
    """These, and those that enter torchax without a group for the host: they may have lost theirs."""
    ranked: frozenset[str]
    """Those that start a group and give each process its share of the samples: the runtime makes each device
    a rank. If they enter torchax, they do so with a rank for each device."""
    splitting: frozenset[str]
    """Those in which one process splits each batch over its devices."""
    with_cuda_default: frozenset[str]
    """Those that make a type of CUDA the default of tensors."""
    unwrapping: frozenset[str]
    """Those that ask models for the `module` in a wrapper made elsewhere, or where names start with it: all,
    since what one program saves another may read."""
    configured: frozenset[str]
    """Those that read configurations at run time."""
    of_scripts: frozenset[str]
    """All that is a part of a script's program, not of a library alone."""

    def asks_gradients(self, module: str) -> bool:
        """Whether a program that a module is a part of computes gradients, by torch or by JAX."""
        return module in self.training or module in self.differentiated


def programs_of(
    modules: Mapping[str, ModuleFacts],
    imports: Mapping[str, set[str]],
    importing: Mapping[str, set[str]],
) -> Programs:
    """What the programs of a project do; `imports` and `importing` say which modules import which."""

    scripts = scripts_of(modules)

    def whole(names: set[str]) -> frozenset[str]:
        """Modules with all of the programs that they are a part of."""
        return frozenset(names | closure(scripts & closure(names, importing), imports))

    def having(says: Callable[[ModuleFacts], object]) -> set[str]:
        return {name for name, facts in modules.items() if says(facts)}

    def importers(target: str) -> set[str]:
        return having(lambda facts: any(f".{one}".endswith(f".{target}") for one in facts.imports))

    naming = having(lambda facts: facts.enters or facts.placed_anywhere)
    differentiated = importers(DIFFERENTIABLE) | importers(FORMER_NAMES[DIFFERENTIABLE])
    entering = whole(having(lambda facts: facts.enters))
    on_host = whole(having(lambda facts: any(facts.groups)))
    grouped = whole(having(lambda facts: facts.groups)) - on_host
    divided = whole(having(lambda facts: facts.divides_samples or facts.shards_parameters))
    launched = whole(having(lambda facts: facts.launches_by_library)) - on_host
    addressed = whole(having(lambda facts: facts.addresses_processes))
    ranking = whole(having(lambda facts: facts.ranks_devices))
    prefixed = frozenset(modules) if having(lambda facts: facts.prefixes) else frozenset()
    scaled = set[str]().union(*map(importers, SCALERS))
    return Programs(
        serving=whole(naming) | closure(naming, imports),
        entering=entering,
        training=whole(having(lambda facts: facts.trains) - differentiated),
        differentiated=whole(differentiated),
        calling_backward=whole(having(lambda facts: facts.backward) | scaled),
        grouped=grouped,
        ranked=((grouped & divided) | launched) - addressed - (entering - ranking),
        splitting=whole(having(lambda facts: facts.splits_batches)),
        lacking_group=grouped | (entering - on_host),
        with_cuda_default=whole(having(lambda facts: facts.cuda_default)),
        unwrapping=prefixed or whole(having(lambda facts: facts.unwraps)),
        configured=whole(having(lambda facts: facts.configured)),
        of_scripts=frozenset(closure(scripts, imports)),
    )


def scripts_of(modules: Mapping[str, ModuleFacts]) -> set[str]:
    """The modules that may be run: those that are in no package."""
    return {n for n, facts in modules.items() if "." not in n and not facts.path.endswith("__init__.py")}


def with_runtime(
    modules: Mapping[str, ModuleFacts], imports: Mapping[str, set[str]], serving: frozenset[str]
) -> set[str]:
    """Modules that import the runtime torchax-compat, directly or not, or whose programs all do.

    A program starts in a script that nothing imports. It needs no runtime if it uses no device; `serving`
    are the modules that use one.
    """
    importers = reversed_relation(imports)
    direct = {name for name, facts in modules.items() if any(map(is_of_runtime, facts.imports))}
    having = closure(direct, importers)
    starts = {name for name in scripts_of(modules) if not importers[name]}
    lacking = closure((starts & serving) - having, imports)
    return having | (closure(starts & having, imports) - lacking)


def closure(names: Iterable[str], related: Mapping[str, set[str]]) -> set[str]:
    """Names with all that they are related to, directly or not."""
    found = set(names)
    waiting = list(found)
    while waiting:
        fresh = related[waiting.pop()] - found
        found |= fresh
        waiting.extend(fresh)
    return found


def reversed_relation(related: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """For each name those that are related to it."""
    found: dict[str, set[str]] = {name: set() for name in related}
    for name, others in related.items():
        for other in others:
            found[other].add(name)
    return found
