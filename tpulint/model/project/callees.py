"""Which functions of the project references may mean; see `names.references` for their forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tpulint.model.project.modules import ModuleClasses


class Callees:
    """Follows references through a project; what means the same everywhere is followed once.

    Args:
        project: its classes.
        instances: references to the calls of the instances that calls pass to a parameter of a function.
    """

    def __init__(self, project: ModuleClasses, instances: Callable[[str, str], Iterable[str]]) -> None:
        self._project = project
        self._instances = instances
        self._named: dict[str, tuple[str, ...]] = {}

    def of(self, reference: str, owner: str | None) -> Iterable[str]:
        """The functions that a reference may mean, for a method of class `owner`."""
        form, _, rest = reference.partition(":")
        if form == "given":
            return self._given(*rest.split(":"))
        if form in ("name", "new"):
            found = self._named.get(reference)
            if found is None:
                found = self._named[reference] = tuple(self._followed(form, rest))
            return found
        if owner is None:
            return ()
        if form == "self":
            return self._path(owner, rest.split("."), virtual=True)
        return self._above(owner, rest) if form == "super" else ()

    def _followed(self, form: str, rest: str) -> Iterator[str]:
        project = self._project
        if form == "name":
            return self._called(project.resolve(rest))
        cls, _, path = rest.partition(":")
        resolved = project.resolve(cls)
        if project.class_(resolved) is not None:
            return self._path(resolved, path.split("."))
        return self._made(resolved, path)

    def _made(self, maker: str, path: str) -> Iterator[str]:
        """The methods of what a function gives, or of what a variable of a module stands for."""
        project, found = self._project, self._project.split(maker)
        facts = project.function(maker)
        held = facts.gives if facts is not None else found[0].tables.get(found[1], ()) if found else ()
        for reference in held:
            form, _, rest = reference.partition(":")
            cls = project.resolve(rest.partition(":")[0])
            if form == "new" and project.class_(cls) is not None:
                yield from self._path(cls, path.split("."))

    def _given(self, function: str, parameter: str) -> Iterator[str]:
        """The methods of the instances that calls hand to a parameter."""
        for reference in self._instances(function, parameter):
            yield from self.of(reference, None)

    def _above(self, owner: str, name: str) -> Iterator[str]:
        project = self._project
        for base in project.mro(owner)[1:]:
            facts = project.class_(base)
            if facts is not None and name in facts.methods:
                yield f"{base}.{name}"
                return

    def _called(self, name: str) -> Iterator[str]:
        project = self._project
        if project.function(name) is not None:
            yield name
            return
        cls, last = (name, "__init__") if project.class_(name) is not None else name.rpartition(".")[::2]
        if project.class_(cls) is not None:
            # `Function.apply` of an own autograd function runs its `forward`
            found = project.method(cls, last) or (project.method(cls, "forward") if last == "apply" else None)
            if found is not None:
                yield found
            return
        module = project.split(name)
        for reference in module[0].tables.get(module[1], ()) if module is not None else ():
            if reference.startswith("new:"):
                yield from self.of(reference, None)
                continue
            held = project.resolve(reference.partition(":")[2])
            if project.function(held) is not None:
                yield held
            for cls in project.mro(held) if project.class_(held) is not None else ():
                facts = project.class_(cls)  # of an instance any method may be called
                yield from (f"{cls}.{method}" for method in (facts.methods if facts is not None else ()))

    def _path(self, cls: str, path: list[str], *, virtual: bool = False) -> Iterator[str]:
        project = self._project
        head, rest = path[0], path[1:]
        if not rest:
            wanted = "forward" if head == "__call__" and project.is_module_class(cls) else head
            found = project.method(cls, wanted)
            if found is not None:
                yield found
            if virtual:
                for heir in project.heirs(cls):
                    facts = project.class_(heir)
                    if facts is not None and wanted in facts.methods:
                        yield f"{heir}.{wanted}"
            if found is not None:
                return
        for reference in self._held(cls, head) if not rest or rest == ["__call__"] else ():
            yield from self.of(reference, cls)
        for made in project.attribute_classes(cls, head):
            if project.class_(made) is not None:
                yield from self._path(made, rest or ["__call__"])

    def _held(self, cls: str, name: str) -> tuple[str, ...]:
        """References to the functions that an attribute holds."""
        project = self._project
        for ancestor in project.mro(cls):
            facts = project.class_(ancestor)
            if facts is not None and name in facts.functions:
                return facts.functions[name]
        return ()
