"""The project as a whole: re-exports resolved, classes linearised, calls and attributes looked up."""

from __future__ import annotations

import ast
import copy
import enum
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from tpulint.knowledge.runtime import is_of_runtime
from tpulint.knowledge.training import SCALERS
from tpulint.model.devices.flow import DeviceFlow, defined
from tpulint.model.devices.places import is_of_enumerations
from tpulint.model.names.annotations import expanded, is_of_tensors
from tpulint.model.project.callees import Callees
from tpulint.model.project.chosen import ANYTHING
from tpulint.model.project.facts import ClassFacts, FunctionFacts, ModuleFacts
from tpulint.model.project.folders import FolderPackages, heads, names_by_folder
from tpulint.model.project.modules import is_module
from tpulint.model.project.placement import Placement
from tpulint.model.project.programs import Programs, closure, programs_of, reversed_relation, with_runtime
from tpulint.model.project.takers import Taker
from tpulint.model.project.tensors import Tensors, tensors_of

_DEPTH = 12


class Certainty(enum.IntEnum):
    """How sure it is that code is traced, surest first.

    `JIT`: the project jits the root by name. `FORWARD`: the root is the `forward` of a module that nobody in
    the project jits. `INTERFACE`: the root is a function of a package that takes tensors and is for others
    to call, jitted or not.
    """

    JIT = 0
    FORWARD = 1
    INTERFACE = 2


class Step(NamedTuple):
    """How tracing gets to a function: from which caller (None for a root), by which place."""

    caller: str | None
    label: str
    path: str
    row: int
    column: int
    certainty: Certainty


class TracePath(NamedTuple):
    """The chain from a trace root to a function."""

    steps: tuple[Step, ...]
    certainty: Certainty


class ProjectFacts:
    """What all modules together say; made by `link`, read by all that judges one file."""

    def __init__(self, modules: Iterable[ModuleFacts]) -> None:
        first: dict[str, ModuleFacts] = {}
        for module in modules:
            first.setdefault(module.name, module)
        self.modules: Mapping[str, ModuleFacts] = first
        self._by_folder = names_by_folder((name, facts.path) for name, facts in first.items())
        #: For each module those of the project that it imports.
        self.imports: dict[str, set[str]] = {
            name: {found[0] for target in facts.imports if (found := self.home(target)) is not None}
            for name, facts in self.modules.items()
        }
        self._chosen = self._chosen_at_run_time()
        for name, chosen in self._chosen.items():
            self.imports[name] |= chosen
        self.reach: dict[str, Step] = {}
        #: Whether fixes leave CUDA what it has.
        self.keeps_gpu = False
        #: Whether the programs find the runtime torchax-compat.
        self.finds_runtime = True
        #: What else is set up where a program enters torchax; see `Settings.environment`.
        self.environment: tuple[str, ...] = ()
        self._functions: dict[str, FunctionFacts | None] = {}
        self._classes: dict[str, ClassFacts | None] = {}
        self._callees = Callees(self)
        self._placement = Placement(self)
        self._resolved: dict[str, str] = {}
        self._mro: dict[str, tuple[str, ...]] = {}
        self._heirs: dict[str, list[str]] = {}
        self._modules: dict[str, bool] = {}
        self._annotations: dict[str, ast.expr | None] = {}
        for name, facts in self._all_classes():
            for base in facts.bases:
                self._heirs.setdefault(self.resolve(base), []).append(name)

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

    def apart(self, modules: Mapping[str, ModuleFacts]) -> ProjectFacts:
        """The same project with its modules' facts at another place, without the answers for single names.

        What concerns all modules at once is answered already, so that it takes none of them.
        """
        for name, member in vars(ProjectFacts).items():
            if isinstance(member, cached_property):
                getattr(self, name)
        other = copy.copy(self)
        vars(other).update(modules=modules, _functions={}, _classes={}, _modules={})
        vars(other).update(_resolved={}, _mro={}, _annotations={})
        vars(other).update(_callees=Callees(other), _placement=Placement(other))
        return other

    @cached_property
    def tensors(self) -> Tensors:
        """The parameters that are tensors by what functions do with them and hand to each other."""
        return tensors_of(self)

    def is_proven_tensor(self, function: str, parameter: str) -> bool:
        """Whether a parameter can be nothing but a tensor, by what is done with it."""
        return (function, parameter) in self.tensors.proven

    def is_handed_tensor(self, function: str, parameter: str) -> bool:
        """Whether the project's calls hand tensors to a parameter, as far as they show it."""
        return (function, parameter) in self.tensors.handed

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

    @cached_property
    def _devices(self) -> DeviceFlow:
        """How devices are handed on, in all modules together but those that fixes wrote beside them."""
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

    def _all_classes(self) -> Iterator[tuple[str, ClassFacts]]:
        for module in self.modules.values():
            for qualname, facts in module.classes.items():
                yield f"{module.name}.{qualname}", facts

    def home(self, name: str) -> tuple[str, str] | None:
        """The name of the project's module that a qualified name lies in, and the rest of the name."""
        # The name of a function within many others is far longer than that of any module.
        head, modules = ".".join(name.split(".", self._depth)[: self._depth]), self.modules
        while head:
            if head in modules:
                return head, name[len(head) + 1 :]
            if head in self._by_folder:
                return self.home(self._by_folder[head] + name[len(head) :])
            head = head.rpartition(".")[0]
        return None

    @cached_property
    def _depth(self) -> int:
        """How many parts the longest name of a module has."""
        return max((name.count(".") + 1 for name in (*self.modules, *self._by_folder)), default=0)

    def split(self, name: str) -> tuple[ModuleFacts, str] | None:
        """The project's module that a qualified name lies in, and the rest of the name."""
        found = self.home(name)
        return (self.modules[found[0]], found[1]) if found is not None else None

    def resolve(self, name: str) -> str:
        """The name of the definition behind a name, re-exports followed; itself where it has none."""
        known = self._resolved.get(name)
        if known is None:
            self._resolved[name] = name  # a cycle of re-exports ends here
            known = self._resolved[name] = self._follow(name, 0, set())
        return known

    def _follow(self, name: str, depth: int, seen: set[str]) -> str:
        found = self.split(name)
        if found is None or not found[1] or name in seen or depth > _DEPTH:
            return name
        seen.add(name)
        module, rest = found
        if rest in module.functions or rest in module.classes:
            return f"{module.name}.{rest}"
        head, _, tail = rest.partition(".")
        target = module.exports.get(head)
        if target is not None and target != f"{module.name}.{head}":
            return self._follow(f"{target}.{tail}" if tail else target, depth + 1, seen)
        for star in module.stars:
            if star not in self.modules:
                continue  # a name in what is not at hand would be looked for in the packages around it
            through = self._follow(f"{star}.{rest}", depth + 1, seen)
            if self.is_defined(through) or self.home(through) is None:
                return through  # what the project defines, or what the file with the name imports
        return name

    def function(self, name: str) -> FunctionFacts | None:
        """The function with this resolved name."""
        if name not in self._functions:
            found = self.split(name)
            self._functions[name] = found[0].functions.get(found[1]) if found is not None else None
        return self._functions[name]

    def is_defined(self, name: str) -> bool:
        """Whether a resolved name is that of a function or class of the project."""
        return self.function(name) is not None or self.class_(name) is not None

    def is_enumeration(self, name: str) -> bool:
        """Whether a class, by its resolved name, is one whose members have values."""
        cls = self.class_(name)
        return cls is not None and any(is_of_enumerations(base) for base in cls.bases)

    def annotation(self, text: str) -> ast.expr | None:
        """A qualified annotation, with what its names stand for in their places; None for none."""
        if text not in self._annotations:
            self._annotations[text] = expanded(text, self._alias) if text else None
        return self._annotations[text]

    def _alias(self, name: str) -> str | None:
        found = self.split(self.resolve(name))
        return found[0].aliases.get(found[1]) if found is not None else None

    def is_of_tensors(self, annotation: str) -> bool:
        """Whether a qualified annotation is that of a tensor or several, and of nothing else."""
        found = self.annotation(annotation)
        return found is not None and is_of_tensors(found)

    def class_(self, name: str) -> ClassFacts | None:
        """Whether the project defines a class of this name; its facts, or None."""
        if name not in self._classes:
            found = self.split(name)
            self._classes[name] = found[0].classes.get(found[1]) if found is not None else None
        return self._classes[name]

    def mro(self, name: str) -> tuple[str, ...]:
        """A class and its ancestors, nearest first, those from outside the project at their places."""
        if name not in self._mro:
            self._mro[name] = (name,)
            order: dict[str, None] = {name: None}
            facts = self.class_(name)
            for base in facts.bases if facts is not None else ():
                order.update(dict.fromkeys(self.mro(self.resolve(base))))
            self._mro[name] = tuple(order)
        return self._mro[name]

    def is_module_class(self, name: str) -> bool:
        """Whether the class is a `torch.nn.Module`."""
        resolved = self.resolve(name)
        if resolved not in self._modules:
            self._modules[resolved] = is_module(self, resolved)
        return self._modules[resolved]

    def uses_torch(self, name: str) -> bool:
        """Whether the file that defines something, by its resolved name, imports torch."""
        found = self.home(name)
        return found is not None and any(
            target.partition(".")[0] == "torch" for target in self.modules[found[0]].imports
        )

    def method(self, cls: str, name: str) -> str | None:
        """Whether the project implements the method; its qualified name, or None."""
        for ancestor in self.mro(cls):
            facts = self.class_(ancestor)
            if facts is not None and name in facts.methods:
                return f"{ancestor}.{name}"
        return None

    def attribute_classes(self, cls: str, name: str) -> tuple[str, ...]:
        """Classes that are instantiated for an attribute."""
        for ancestor in self.mro(cls):
            facts = self.class_(ancestor)
            if facts is not None and name in facts.modules:
                return tuple(self.resolve(made) for made in facts.modules[name])
        return ()

    def is_tensor_attribute(self, cls: str, name: str) -> bool:
        """Whether the attribute is a parameter or a buffer."""
        return any(
            facts is not None and name in facts.tensors
            for facts in map(self.class_, self.mro(self.resolve(cls)))
        )

    def is_computed(self, cls: str, name: str) -> bool:
        """Whether a class is a module whose `forward` leaves something in an attribute."""
        return any(
            facts is not None and name in facts.computed
            for facts in map(self.class_, self.mro(self.resolve(cls)))
        )

    @cached_property
    def computed(self) -> frozenset[str]:
        """The attributes in which any class's `forward` leaves something."""
        return frozenset(name for _, facts in self._all_classes() for name in facts.computed)

    def callees(self, reference: str, owner: str | None) -> Iterable[str]:
        """The project's functions that a reference may mean, for a method of class `owner`."""
        return self._callees.of(reference, owner)

    def heirs(self, cls: str) -> Iterator[str]:
        """All classes below a class."""
        seen: set[str] = set()
        waiting = [*self._heirs.get(cls, ())]
        while waiting:
            heir = waiting.pop()
            if heir not in seen:
                seen.add(heir)
                yield heir
                waiting.extend(self._heirs.get(heir, ()))

    @cached_property
    def overridden(self) -> frozenset[str]:
        """The methods that classes below define anew."""
        return frozenset(
            f"{name}.{method}"
            for name in self._heirs
            if (facts := self.class_(name)) is not None
            for heir in self.heirs(name)
            if (below := self.class_(heir)) is not None
            for method in {*facts.methods} & {*below.methods}
        )

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

    def places(self, module: str) -> bool:
        """Whether the program that starts in a module puts something on a device, as far as calls show."""
        return self._placement.places(module)

    def chosen_by(self, module: str) -> set[str]:
        """The modules that the program which starts in a module imports by names made at run time."""
        return set[str]().union(*(self._chosen.get(facts.name, ()) for facts in self.program(module)))

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

    def put_on_device(self, functions: Iterable[str]) -> bool:
        """Whether one of some functions puts something on a device, or calls what does, or may do so."""
        return self._placement.put_on_device(functions)

    def puts_on_device(self, reference: str) -> bool:
        """Whether one of the functions that a reference may run puts something on a device."""
        return self.put_on_device(self._placement.callees(reference))

    def takes_literal(self, owner: str) -> bool:
        """Whether a function, or a module's own code, gives torch a device that a literal names."""
        return self._devices.takes_literal(owner)

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

    def serves_device(self, module: str) -> bool:
        """Whether a program with this module uses a device or the torchax environment."""
        return module in self.programs.serving or self.places(module)

    @cached_property
    def programs(self) -> Programs:
        """What the programs do that modules belong to."""
        return programs_of(self.modules, self.imports, self.importing)

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


def _is_program(facts: ModuleFacts) -> bool:
    """Whether a module has code for when it is started itself, or is a script that uses a device at once."""
    return facts.is_started or (facts.moves and "." not in facts.name)
