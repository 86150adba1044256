"""What qualified names stand for in a project: modules, functions, classes and annotations."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from tpulint.model.names.annotations import expanded, is_of_tensors
from tpulint.model.project.facts import ClassFacts, FunctionFacts, ModuleFacts
from tpulint.model.project.folders import names_by_folder

_DEPTH = 12


class Definitions:
    """The definitions of all modules together."""

    def __init__(self, modules: Iterable[ModuleFacts]) -> None:
        first: dict[str, ModuleFacts] = {}
        for module in modules:
            first.setdefault(module.name, module)
        self.modules: Mapping[str, ModuleFacts] = first
        self._by_folder = names_by_folder((name, facts.path) for name, facts in first.items())
        self._functions: dict[str, FunctionFacts | None] = {}
        self._classes: dict[str, ClassFacts | None] = {}
        self._resolved: dict[str, str] = {}
        self._annotations: dict[str, ast.expr | None] = {}

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

    def class_(self, name: str) -> ClassFacts | None:
        """Whether the project defines a class of this name; its facts, or None."""
        if name not in self._classes:
            found = self.split(name)
            self._classes[name] = found[0].classes.get(found[1]) if found is not None else None
        return self._classes[name]

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

    def uses_torch(self, name: str) -> bool:
        """Whether the file that defines something, by its resolved name, imports torch."""
        found = self.home(name)
        return found is not None and any(
            target.partition(".")[0] == "torch" for target in self.modules[found[0]].imports
        )


def is_of_enumerations(base: str) -> bool:
    """Whether a base has enumerations for its classes, going by its name."""
    return base.endswith("Enum")
