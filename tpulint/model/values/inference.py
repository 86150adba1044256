"""Type inference of one file: which functions are inferred when, and what they tell each other."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from tpulint.model.names.references import is_put_back
from tpulint.model.names.scopes import FunctionNode, Scope, ScopeKind, parameters
from tpulint.model.project.project import ProjectFacts
from tpulint.model.project.trace_path import Certainty
from tpulint.model.syntax.parsed_file import ModulePath
from tpulint.model.values.across import Walks, callers, returned_in_file
from tpulint.model.values.flow import Flow
from tpulint.model.values.kinds import (
    NONE,
    STATIC,
    TENSOR,
    UNKNOWN,
    Instance,
    Kind,
    Several,
    Static,
    Tensor,
    joined,
    made_on_host,
    placed_as,
)
from tpulint.model.values.parameters import annotated_kind, parameter_kinds
from tpulint.model.values.typed_file import FunctionTypes, TypedFile
from tpulint.source import Source


class Inference(TypedFile):
    """A file with the inferred types of its expressions, each function inferred when first asked for."""

    def __init__(self, source: Source, path: ModulePath) -> None:
        super().__init__(source, path)
        self._flows: dict[int, Flow | None] = {}
        self._running: dict[int, Flow] = {}
        self._former: dict[int, Flow] = {}
        self._asked: set[int] = set()
        self._early: set[int] = set()
        self._begun = False
        #: How often inference has been told less than there is, for it was under way.
        self._lacking = 0
        self._attributes: dict[tuple[str, str], Kind] = {}
        self._on_host: dict[tuple[str, str], bool] = {}

    def enter(self, project: ProjectFacts) -> None:
        """Answer from now on with what the whole project says."""
        super().enter(project)
        self._forget()
        self._attributes.clear()
        self._on_host.clear()

    def release(self) -> None:
        """Break the cycles between the parts of the file, so that its memory is freed with its last user."""
        super().release()
        self._forget()

    def _forget(self) -> None:
        self._flows.clear()
        self._running.clear()
        self._former.clear()
        self._asked.clear()
        self._early.clear()
        self._begun = False
        for name in ("mixed", "walks"):
            self.__dict__.pop(name, None)

    def kind(self, node: ast.expr, scope: Scope) -> Kind:
        """The inferred type of an expression of this scope."""
        flow = self.flow(scope.function or scope)
        return flow.kinds.get(id(node), UNKNOWN) if flow is not None else UNKNOWN

    def is_reached(self, node: ast.expr, scope: Scope) -> bool:
        """Whether the code can be reached with torchax tensors, as far as type inference shows."""
        flow = self.flow(scope.function or scope)
        return flow is None or id(node) in flow.kinds

    def flow(self, scope: Scope) -> Flow | None:
        """The inference of a function or of the top level; None for class bodies and while under way."""
        if scope.kind is ScopeKind.COMPREHENSION:
            scope = self.index.module
        if not self._begun:
            self._begun = True
            self._begin()
        return self._flow(scope)

    def _begin(self) -> None:
        """Infer the top level and all traced code in the file's order, whatever is asked for first.

        Other code, of which most is never asked for, is inferred when it is.
        What was told less than there is, since functions tell each other and one of them is first, is
        inferred once more and told what the others were.
        """
        for _ in range(2):
            for key in self._early:
                self._flows.pop(key, None)
            self._early.clear()
            self._attributes.clear()
            self._former = dict(self._running)
            for scope in (self.index.module, *self.index.functions):
                if scope is self.index.module or self.trace_path(scope) is not None:
                    self._flow(scope)
        self._early.clear()
        self._former.clear()

    def _flow(self, scope: Scope) -> Flow | None:
        key = id(scope)
        if key not in self._flows and key not in self._asked:
            self._asked.add(key)
            for caller in callers(self, scope):  # first, so that the parameters are known
                self._early.add(key)
                self._flow(caller)
        if key not in self._flows:
            self._flows[key] = None
            if scope.kind is not ScopeKind.CLASS:
                self._run(key, scope)
        elif key in self._early or (self._flows[key] is None and key in self._running):
            self._lacking += 1
        return self._flows[key] or self._former.get(key)

    def _run(self, key: int, scope: Scope) -> None:
        lacking = self._lacking
        flow = self._running[key] = Flow(self, self.walks, scope)
        flow.run()
        self._flows[key] = flow
        if self._lacking != lacking:
            self._early.add(key)

    def flow_for(self, scope: Scope, given: Mapping[str, Kind]) -> FunctionTypes:
        """The inference of a function for what one call hands to it."""
        flow = Flow(self, self.walks, scope, given)
        flow.run()
        return flow

    def kind_so_far(self, node: ast.expr, scope: Scope) -> Kind:
        """The kind of an expression of this scope, as far as inference has come; never begins it."""
        key = id(scope.function or scope)
        for flow in (self._running.get(key), self._former.get(key)):
            if flow is not None and id(node) in flow.kinds:
                return flow.kinds[id(node)]
        return UNKNOWN

    def free_name(self, name: str, scope: Scope) -> Kind:
        """The kind of a name that a function takes from around it."""
        found = self.names.lookup(name, scope)
        if found is None or found[0] is scope:
            return UNKNOWN
        owner, bindings = found
        if all(binding.target is not None or binding.node is not None for binding in bindings):
            return UNKNOWN
        flow = self.flow(owner)
        if flow is None and id(owner) in self._running:  # its own statement calls the function that asks
            self._early.add(id(scope.function or scope))
        return flow.final.get(name, UNKNOWN) if flow is not None else UNKNOWN

    def attribute_kind(self, cls: str, attribute: str) -> Kind:
        """The kind of an attribute of an instance."""
        key = (cls, attribute)
        found = self._attributes.get(key)
        if found is None:
            lacking = self._lacking
            found = self._attribute_kind(cls, attribute)
            if self._lacking == lacking:
                self._attributes[key] = found
        return found

    def _attribute_kind(self, cls: str, attribute: str) -> Kind:
        if attribute == "training":
            return STATIC
        if self.project.is_tensor_attribute(cls, attribute):
            return TENSOR
        made = self.project.attribute_classes(cls, attribute)
        if made:
            if made[0] in ("torch.nn.ModuleList", "torch.nn.ModuleDict"):
                return Several(Instance(made[1]) if len(made) > 1 else UNKNOWN)
            return Instance(made[0])
        if cls.startswith("torch.nn.") and attribute in ("weight", "bias", "running_mean", "running_var"):
            return TENSOR
        return self._assigned_kind(cls, attribute)

    def _assigned_kind(self, cls: str, attribute: str) -> Kind:
        """What the methods of a class of this file assign to an attribute."""
        for ancestor in self.project.mro(cls):
            found = self.assignments.get((ancestor, attribute))
            if found is not None:
                moves = [place for value, place in found if is_put_back(value, attribute)]
                made = [(value, place) for value, place in found if not is_put_back(value, attribute)]
                kind = joined(tuple(self._assigned(value, place) for value, place in made))
                if moves and isinstance(kind, Tensor):
                    stays = kind.origins if all(map(self._comes_late, moves)) else frozenset()
                    kind = replace(kind, dtype="", origins=stays)
                if kind == NONE:
                    return UNKNOWN  # it is set from elsewhere
                if isinstance(kind, Static):
                    return STATIC
                return replace(kind, root="") if isinstance(kind, Tensor) else kind
        return UNKNOWN

    def _comes_late(self, place: Scope) -> bool:
        """Whether code is a method that others may do without: what it moves was on the host until then."""
        path = self.trace_path(place)
        return path is not None and len(path.steps) == 1 and path.certainty is Certainty.INTERFACE

    def starts_on_host(self, node: ast.expr, scope: Scope) -> bool:
        """Whether the device is that of an attribute that holds a CPU tensor by default.

        That is an attribute of `self` to which this file assigns only CPU tensors, with the default devices
        of the methods.
        """
        owner = self.kind(node.value, scope) if isinstance(node, ast.Attribute) else UNKNOWN
        if not isinstance(owner, Instance) or not isinstance(node, ast.Attribute):
            return False
        key = (owner.cls, node.attr)
        if key not in self._on_host:
            self._on_host[key] = self._starts_on_host(*key)
        return self._on_host[key]

    def _starts_on_host(self, cls: str, attribute: str) -> bool:
        values = [found for c in self.project.mro(cls) for found in self.assignments.get((c, attribute), ())]
        kinds = [kind for value, place in values if (kind := self._by_default(value, place)) != NONE]
        return bool(kinds) and all(isinstance(kind, Tensor) and kind.is_host for kind in kinds)

    def _by_default(self, value: ast.expr, place: Scope) -> Kind:
        """The kind of a value where its function is called with no device."""
        function = place.function
        if function is None or self.kind(value, place) == NONE:
            return self.kind(value, place)
        return self.walks.by_default(function).get(id(value), UNKNOWN)

    def _assigned(self, value: ast.expr, place: Scope) -> Kind:
        """The kind of one assigned value; constants and parameters tell theirs without inference."""
        if isinstance(value, ast.Constant):
            return NONE if value.value is None else STATIC
        function = place.function
        if (
            isinstance(value, ast.Name)
            and function is not None
            and len(function.bindings.get(value.id, ())) == 1
        ):
            node = function.node
            plain = len(function.bindings[value.id]) == 1
            if plain and isinstance(node, FunctionNode) and value.id in {a.arg for a in parameters(node)}:
                return parameter_kinds(self, function).get(value.id, UNKNOWN)
        called = value.func if isinstance(value, ast.Call) else None
        if isinstance(called, ast.Name) and self.names.qualified(called, place) is None:
            return UNKNOWN
        return self.kind(value, place)

    @cached_property
    def walks(self) -> Walks:
        """The functions of this file as calls in it walk through them."""
        return Walks(self)

    @cached_property
    def mixed(self) -> set[int]:
        """Offsets of calls, in any code, whose CPU tensor is combined with a device tensor in traced code."""
        found: set[int] = set()
        for scope in self.index.functions:
            path = self.trace_path(scope)
            flow = self.flow(scope) if path is not None else None
            if path is None or flow is None:
                continue
            found |= flow.mixed
            if path.certainty is Certainty.JIT and len(path.steps) == 1:  # `jit` returns no host tensor
                found.update(*map(made_on_host, flow.returned))
            elif scope.name == "forward":  # a GPU's tensors take indices from the host, so nobody moves them
                found.update(*(made_on_host(kind, "int") for kind in flow.returned))
        return found

    def written_from_device(self, node: ast.Subscript, scope: Scope) -> list[ast.Call]:
        """Whether a device tensor is written into a CPU tensor; the calls that created the CPU tensor."""
        flow = self.flow(scope.function or scope)
        if flow is None or id(node) not in flow.written:
            return []
        return [self.makers[origin] for origin in sorted(made_on_host(self.kind(node.value, scope)))]

    def returned_kind(self, function: str) -> Kind:
        """The kind that a function of the project returns: as declared, or by its returns in this file."""
        facts = self.project.function(function)
        if facts is None:
            return UNKNOWN
        own = self.functions.get(function)
        found = returned_in_file(self, own) if own is not None else UNKNOWN
        declared = self._declared_kind(facts.returns)
        if declared == UNKNOWN:
            unsure = Tensor(certain=False) if facts.qualname.endswith(".forward") else UNKNOWN
            return found if found != UNKNOWN else unsure
        if isinstance(declared, Tensor) and isinstance(found, Tensor) and found.certain:
            declared = replace(declared, certain=True)  # of `int | Tensor`, its returns say which
        return placed_as(declared, found)

    def _declared_kind(self, annotation: str) -> Kind:
        declared = self.project.annotation(annotation)
        return annotated_kind(self, declared, None) if declared is not None else UNKNOWN
