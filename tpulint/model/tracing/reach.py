"""What tracing reaches: the call graph walked from the trace roots."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from tpulint.model.project.facts import FunctionFacts, ModuleFacts
from tpulint.model.project.project import ProjectFacts
from tpulint.model.project.trace_path import Certainty, Step
from tpulint.model.tracing.called_by_host import CalledByHost


def link(
    modules: Iterable[ModuleFacts],
    trace_roots: Iterable[str] = (),
    certainty: Certainty = Certainty.INTERFACE,
) -> ProjectFacts:
    """Put all modules' facts together and walk the call graph from the trace roots.

    Args:
        modules: the facts of every module.
        trace_roots: qualified names of functions that are jitted elsewhere.
        certainty: the least that a root needs for its code to count as traced.

    Surer roots are walked first, so a function that several reach counts as what the surest makes it.
    """
    project = ProjectFacts(modules)
    walk = _Walk(project)
    walk.enter_all(_jitted(project))
    walk.enter_all(_by_settings(project, trace_roots))
    if certainty >= Certainty.FORWARD:
        walk.enter_all(_forwards(project))
    if certainty >= Certainty.INTERFACE:
        walk.enter_all(_interfaces(project))
    return project


class _Walk:
    """Enters functions into the project's reach, breadth first."""

    def __init__(self, project: ProjectFacts) -> None:
        self.project = project

    def enter_all(self, roots: Iterable[tuple[str, Step]]) -> None:
        """Enter roots and all that they call."""
        reach = self.project.reach
        waiting: deque[str] = deque()
        for name, step in roots:
            if name not in reach:
                reach[name] = step
                waiting.append(name)
        while waiting:
            for callee, step in self._newly_called(waiting.popleft()):
                reach[callee] = step
                waiting.append(callee)

    def _newly_called(self, name: str) -> Iterator[tuple[str, Step]]:
        for callee, path, row, column in _called_by(self.project, name):
            if callee in self.project.reach:
                continue
            cls, _, last = callee.rpartition(".")
            if last in ("__init__", "__post_init__") and self.project.is_module_class(cls):
                continue  # layers are made before anything is traced
            certainty = self.project.reach[name].certainty
            facts = self.project.function(callee)
            if certainty is Certainty.INTERFACE and facts is not None and _infers(self.project, facts):
                continue  # generation and the like: a loop on the host
            yield callee, Step(name, f"calls `{_short(callee)}`", path, row, column, certainty)


def _called_by(project: ProjectFacts, name: str) -> Iterator[tuple[str, str, int, int]]:
    """The project's functions that a function calls, each with the place of the call."""
    found, facts = project.split(name), project.function(name)
    if found is None or facts is None or not facts.calls:
        return
    module = found[0]
    owner = f"{module.name}.{facts.owner}" if facts.owner is not None else _owner(module, facts)
    for call in facts.calls:
        for callee in project.callees(call.callee, owner):
            yield callee, module.path, call.row, call.column


def _jitted(project: ProjectFacts) -> Iterator[tuple[str, Step]]:
    for module in project.modules.values():
        for root in module.roots:
            owner = f"{module.name}.{root.owner}" if root.owner is not None else None
            for name in project.callees(root.callee, owner):
                label = f"`{_short(name)}`, traced by {root.label}"
                yield name, Step(None, label, module.path, root.row, root.column, Certainty.JIT)


def _by_settings(project: ProjectFacts, names: Iterable[str]) -> Iterator[tuple[str, Step]]:
    for name in names:
        resolved = project.resolve(name)
        facts, found = project.function(resolved), project.split(resolved)
        if facts is not None and found is not None:
            label = f"`{_short(resolved)}`, listed under `trace-roots` in the settings"
            yield resolved, Step(None, label, found[0].path, facts.row, facts.column, Certainty.JIT)


def _forwards(project: ProjectFacts) -> Iterator[tuple[str, Step]]:
    by_host = CalledByHost(project)
    for module in project.modules.values():
        for qualname, cls in module.classes.items():
            name = f"{module.name}.{qualname}"
            for method in ("forward", "__call__"):
                if method in cls.methods and project.is_module_class(name):
                    facts = module.functions[f"{qualname}.{method}"]
                    if by_host.has(name, facts):
                        continue
                    label = f"`{qualname}.{method}`, traced when the module is jitted"
                    step = Step(None, label, module.path, facts.row, facts.column, Certainty.FORWARD)
                    yield f"{name}.{method}", step


def _interfaces(project: ProjectFacts) -> Iterator[tuple[str, Step]]:
    """Functions that take tensors, offered to others, which the project does not call on the host itself."""
    offered = {
        f"{module.name}.{qualname}": module
        for module in project.modules.values()
        if "." in module.name and not _tests(module.name)
        for qualname, facts in module.functions.items()
        if facts.offered and _is_interface(project, f"{module.name}.{qualname}", facts)
    }
    offered = {name: module for name, module in offered.items() if name not in project.reach}
    on_host = {
        callee
        for module in project.modules.values()
        if not _tests(module.name)
        for qualname in module.functions
        if (caller := f"{module.name}.{qualname}") not in project.reach and caller not in offered
        for callee, *_ in _called_by(project, caller)
    }
    for name, module in offered.items():
        if name not in on_host:
            facts = module.functions[name[len(module.name) + 1 :]]
            label = f"`{_short(name)}`, traced when jitted code calls it"
            yield name, Step(None, label, module.path, facts.row, facts.column, Certainty.INTERFACE)


def _infers(project: ProjectFacts, facts: FunctionFacts) -> bool:
    """Whether inference begins with a function: a method, or one that takes the model first, not a tensor."""
    return facts.infers and (facts.owner is not None or not project.is_of_tensors(facts.takes))


def _is_interface(project: ProjectFacts, name: str, facts: FunctionFacts) -> bool:
    """Whether a function takes tensors first, or makes them of sizes on a device that its callers name.

    So does a method of what is made of tensors, such as boxes.
    """
    if _infers(project, facts) or (facts.files and not facts.takes):
        return False
    if project.is_of_tensors(facts.takes) or (facts.makes and project.is_of_tensors(facts.returns)):
        return True
    if not facts.takes and any(project.is_proven_tensor(name, taken) for taken in facts.undeclared):
        owner = name.rpartition(".")[0]
        if facts.owner is None or (project.is_module_class(owner) and not facts.takes_module):
            return True
    cls = name.rpartition(".")[0]
    made = project.method(cls, "__init__") if facts.owner is not None else None
    maker = project.function(made) if made is not None else None
    private = cls.rpartition(".")[2].startswith("_")
    return maker is not None and not private and project.is_of_tensors(maker.takes)


def _tests(module: str) -> bool:
    return any(part.startswith("test") or part == "conftest" for part in module.split("."))


def _owner(module: ModuleFacts, facts: FunctionFacts) -> str | None:
    """The class around a function nested in a method."""
    head = facts.qualname
    while "." in head:
        head = head.rpartition(".")[0]
        outer = module.functions.get(head)
        if outer is not None and outer.owner is not None:
            return f"{module.name}.{outer.owner}"
    return None


def _short(name: str) -> str:
    parts = name.split(".")
    return ".".join(parts[-2:]) if len(parts) > 1 and parts[-2][:1].isupper() else parts[-1]
