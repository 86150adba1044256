"""Whether functions and programs put something on a device that is not the host's, as far as calls show."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from tpulint.model.project.device_use import DeviceUse
from tpulint.model.project.facts import ANY, FunctionFacts
from tpulint.model.project.programs import closure

#: Packages whose classes call no methods of classes below them, but those that calls name.
_PLAIN = frozenset({"abc", "builtins", "collections", "dataclasses", "enum", "typing"})


class Placement:
    """Follows calls, and functions that are passed on, to what is put on a device."""

    def __init__(self, project: DeviceUse) -> None:
        self._project = project
        #: Functions that have been followed and put nothing on a device.
        self._on_host: set[str] = set()
        self._named: dict[str, tuple[str, ...]] = {}

    def places(self, module: str) -> bool:
        """Whether the program that starts in a module puts something on a device."""
        project = self._project
        entry = project.modules[module]
        if entry.placed_anywhere or module in project.placing:
            return True
        begun = (*entry.starts, *entry.mentions)
        called = {callee for call in begun for callee in self.callees(call.callee)}
        if any(call.callee == ANY for call in entry.starts) and module in project.may_put:
            return True
        if self.put_on_device([*(f"{module}.{name}" for name in entry.functions), *called]):
            return True
        is_training = module in project.programs.training
        if is_training and any(one.looks_up for _, one, _ in self._called(called, set())):
            parts = (f"{facts.name}.{name}" for facts in project.program(module) for name in facts.functions)
            if self.put_on_device(parts):
                return True
        chosen = project.chosen_by(module)  # no calls lead there
        return any(project.modules[name].placed_anywhere for name in closure(chosen, project.imports))

    def put_on_device(self, functions: Iterable[str]) -> bool:
        """Whether one of some functions puts something on a device, or calls what does, or may do so."""
        project, seen = self._project, set[str]()
        for name, facts, module in self._called(functions, seen, self._on_host):
            if facts.places or project.takes_literal(name):
                return True
            if module in project.may_put and facts.looks_up:
                return True
        self._on_host |= seen
        return False

    def _called(
        self, functions: Iterable[str], seen: set[str], known: Container[str] = ()
    ) -> Iterator[tuple[str, FunctionFacts, str]]:
        """Some functions and all that they call, with their modules, but for those that are known."""
        project, waiting = self._project, list(functions)
        while waiting:
            name = waiting.pop()
            if name in seen or name in known:
                continue
            seen.add(name)
            facts, found = project.function(name), project.home(name)
            if facts is None or found is None:
                continue
            yield name, facts, found[0]
            owner = f"{found[0]}.{facts.owner}" if facts.owner is not None else None
            references = {call.callee for call in facts.calls}.union(f"name:{one}" for one in facts.mentions)
            waiting.extend(callee for reference in references for callee in self.callees(reference, owner))

    def callees(self, reference: str, owner: str | None = None) -> Iterable[str]:
        """The project's functions that a reference may run, for a method of class `owner`."""
        if not reference.startswith(("name:", "new:")):
            return self._project.callees(reference, owner)
        found = self._named.get(reference)
        if found is None:
            found = self._named[reference] = (
                *self._project.callees(reference, None),
                *self._methods(reference),
            )
        return found

    def _methods(self, reference: str) -> Iterator[str]:
        """All methods of the class of which a reference makes an instance, if a library may call any of them.

        It may where the class has a base from a library, such as `Thread`.
        """
        project = self._project
        cls = project.resolve(reference.split(":")[1])
        if project.class_(cls) is None or project.is_module_class(cls):
            return
        known = [(one, project.class_(one)) for one in project.mro(cls)]
        if any(facts is None and one.partition(".")[0] not in _PLAIN for one, facts in known):
            for one, facts in known:
                yield from (f"{one}.{method}" for method in (facts.methods if facts is not None else ()))
