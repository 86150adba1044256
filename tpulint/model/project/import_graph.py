"""Which modules of a project import which, and the programs that they make up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from tpulint.knowledge.runtime import is_of_runtime
from tpulint.model.project.chosen import ANYTHING
from tpulint.model.project.definitions import Definitions
from tpulint.model.project.facts import ModuleFacts
from tpulint.model.project.programs import Programs, closure, programs_of, reversed_relation, with_runtime


class ImportGraph(Definitions):
    """The definitions of a project, with the imports between its modules."""

    def __init__(self, modules: Iterable[ModuleFacts]) -> None:
        super().__init__(modules)
        #: For each module those of the project that it imports.
        self.imports: dict[str, set[str]] = {
            name: {found[0] for target in facts.imports if (found := self.home(target)) is not None}
            for name, facts in self.modules.items()
        }
        self._chosen = self._chosen_at_run_time()
        for name, chosen in self._chosen.items():
            self.imports[name] |= chosen

    def _chosen_at_run_time(self) -> dict[str, set[str]]:
        """For each module that imports others by names that are made at run time: those that it may mean.

        Where that may be any, it is none that is a program itself: none that imports the module, none with
        code for that, and no script that puts something on a device as it runs.
        """
        known = {**{name: name for name in self.modules}, **self._by_folder}
        found: dict[str, set[str]] = {}
        for facts in self.modules.values():
            if not facts.chosen:
                continue
            chosen = {module for name, module in known.items() if name.startswith(facts.chosen)}
            if ANYTHING in facts.chosen:
                importing = closure([facts.name], reversed_relation(self.imports))
                chosen -= {name for name in chosen if is_program(self.modules[name])} | importing
            found[facts.name] = chosen - {facts.name}
        return found

    def program(self, module: str) -> Iterator[ModuleFacts]:
        """A module and all of the project that it imports, directly or not."""
        return (self.modules[name] for name in sorted(closure([module], self.imports)))

    def program_uses_runtime(self, module: str) -> bool:
        """Whether a module or one that it imports, or each program with it, imports the runtime."""
        return module in self._with_runtime

    @cached_property
    def _with_runtime(self) -> set[str]:
        """An import by a name that is built at run time may come late, or never, and does not count."""
        said = {name: used - self._chosen.get(name, set()) for name, used in self.imports.items()}
        return with_runtime(self.modules, said, self.programs.serving)

    def chosen_by(self, module: str) -> set[str]:
        """The modules that the program which starts in a module imports by names made at run time."""
        return set[str]().union(*(self._chosen.get(facts.name, ()) for facts in self.program(module)))

    @cached_property
    def imported(self) -> frozenset[str]:
        """The names that are imported anywhere in the project."""
        return frozenset(target for facts in self.modules.values() for target in facts.imports)

    @cached_property
    def uses_runtime(self) -> bool:
        """Whether the project imports the runtime torchax-compat."""
        return any(map(is_of_runtime, self.imported))

    def users(self, modules: Iterable[str]) -> set[str]:
        """Modules and all that import them, directly or not."""
        return closure(modules, self.importing)

    @cached_property
    def importing(self) -> dict[str, set[str]]:
        """For each module those of the project that import it."""
        return reversed_relation(self.imports)

    @cached_property
    def programs(self) -> Programs:
        """What the programs do that modules belong to."""
        return programs_of(self.modules, self.imports, self.importing)


def is_program(facts: ModuleFacts) -> bool:
    """Whether a module has code for when it is started itself, or is a script that uses a device at once."""
    return facts.is_started or (facts.moves and "." not in facts.name)
