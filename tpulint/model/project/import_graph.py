"""Which modules of a project import which, and the programs and packages that they make up."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cached_property

from tpulint.knowledge.runtime import is_of_runtime
from tpulint.model.project.chosen import ANYTHING
from tpulint.model.project.definitions import Definitions
from tpulint.model.project.facts import ModuleFacts
from tpulint.model.project.folders import FolderPackages, heads
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
                chosen -= {name for name in chosen if _is_program(self.modules[name])} | importing
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

    def package(self, module: str) -> str:
        """The dotted name of the package that others import a module from; "" for a script.

        A folder without an `__init__.py` is one, too, where some import says so.
        """
        facts = self.modules[module]
        package, _, stem = module.partition("#")[0].rpartition(".")
        if facts.path.endswith("__init__.py"):
            return module.partition("#")[0]
        folder = os.path.basename(os.path.dirname(facts.path))
        is_inside = f"{folder}.{stem}" in self._imported_heads or module in self._imported_by_folder
        if package or not is_inside:
            return package
        return self._folders.package_around(facts.path) or self._folders.imported_from(module) or folder

    @cached_property
    def _folders(self) -> FolderPackages:
        imports = [(facts.path, target) for facts in self.modules.values() for target in facts.imports]
        return FolderPackages(
            {name: facts.path for name, facts in self.modules.items()}, imports, self._by_folder
        )

    def is_of_package(self, module: str) -> bool:
        """Whether a module is imported by the name of its package, or imports others of that by it.

        What lies in a folder without an `__init__.py` is, where the program imports it so, and it imports
        nothing that lies beside it by itself, as a script there would.
        """
        package, _, _ = module.partition("#")[0].rpartition(".")
        if not package:
            is_used = any(not name.rpartition(".")[2].startswith("test") for name in self.importing[module])
            return is_used and bool(self.package(module)) and not self._imports_neighbour(module)
        top = package.partition(".")[0] + "."
        return module in self._imported_paths or any(
            target.startswith(top) for target in self.modules[module].imports
        )

    def _imports_neighbour(self, module: str) -> bool:
        folder = os.path.dirname(self.modules[module].path)
        neighbours = {name for name, facts in self.modules.items() if os.path.dirname(facts.path) == folder}
        heads = {target.partition(".")[0] for target in self.modules[module].imports}
        return not heads.isdisjoint(neighbours - {os.path.basename(folder)})

    @cached_property
    def _imported_paths(self) -> frozenset[str]:
        """All names that are imported, and what these are in."""
        found = set[str]()
        for target in self.imported:
            while target and target not in found:
                found.add(target)
                target = target.rpartition(".")[0]
        return frozenset(found)

    @cached_property
    def imported(self) -> frozenset[str]:
        """The names that are imported anywhere in the project."""
        return frozenset(target for facts in self.modules.values() for target in facts.imports)

    @cached_property
    def uses_runtime(self) -> bool:
        """Whether the project imports the runtime torchax-compat."""
        return any(map(is_of_runtime, self.imported))

    @cached_property
    def _imported_heads(self) -> set[str]:
        """The first two parts of all names that are imported."""
        return {".".join(target.split(".", 2)[:2]) for target in self.imported}

    @cached_property
    def _imported_by_folder(self) -> set[str]:
        """Modules that are imported by a name that begins with their folder's."""
        return {
            self._by_folder[one] for name in self.imported for one in heads(name) & self._by_folder.keys()
        }

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


def _is_program(facts: ModuleFacts) -> bool:
    """Whether a module has code for when it is started itself, or is a script that uses a device at once."""
    return facts.is_started or (facts.moves and "." not in facts.name)
