"""Draws the facts of one module from its index."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from tpulint.knowledge.tracing import (
    FILING,
    FUNCTIONAL_CALLS,
    GRADIENT_ENTRIES,
    LIBRARIES,
    TRACE_ENTRIES,
    WRAPPERS,
)
from tpulint.model.names.annotations import aliases
from tpulint.model.names.index import Index
from tpulint.model.names.operands import used_as_tensors
from tpulint.model.names.qualified import Names, dotted
from tpulint.model.names.references import (
    attributes_by_class,
    given,
    held_functions,
    instances,
    method_around,
    positional,
    references,
)
from tpulint.model.names.scopes import FunctionNode, Scope, ScopeKind
from tpulint.model.project.at_import import moves_at_import
from tpulint.model.project.attribute_writes import changes_itself
from tpulint.model.project.chosen import MAKING, chosen_imports, is_chosen
from tpulint.model.project.facts import ANY, SOME_BASE, CallFact, ClassFacts, FunctionFacts, ModuleFacts, Root
from tpulint.model.project.handing import Handed, Handing
from tpulint.model.project.made import Made
from tpulint.model.project.mentioned import mentioned
from tpulint.model.project.on_host import OnHost
from tpulint.model.project.placing import entering, makes_cuda_default, placing
from tpulint.model.project.signatures import (
    declared,
    first_taken,
    infers,
    is_offered,
    makes_on_device,
    takes_module,
    tensor_parameters,
    training_apart,
)
from tpulint.model.project.takers import handed_to_accelerate
from tpulint.model.project.wrapped import asks_for_module, asks_for_prefix
from tpulint.model.syntax.entry import of_main

_TABLES = (ast.Dict, ast.List, ast.Tuple)


class _Summary:
    """Collects one module's facts."""

    def __init__(self, name: str, path: str, index: Index, names: Names) -> None:
        self.name = name
        self.path = path
        self.index = index
        self.names = names
        self.calls: dict[int, dict[CallFact, None]] = {
            id(scope): {} for scope in (index.module, *index.functions)
        }
        self.defined = {scope.name for scope in index.functions}
        self.roots: list[Root] = []
        self.tensors: dict[str, set[str]] = {}
        self.attributes = attributes_by_class(index)
        self.handing = Handing(names)
        self.used = used_as_tensors(index, names)
        self.on_host = OnHost(index, names)
        self.hands: dict[int, dict[Handed, None]] = {
            id(scope): {} for scope in (index.module, *index.functions)
        }
        self.made = Made(names, {f"{name}.{scope.qualname}" for scope in index.classes})
        self.mentioned = mentioned(name, index, names)

    def summarise(self) -> ModuleFacts:
        self._calls()
        self._methods_at_hand()
        self._taken_from_tables()
        self._returned()
        self._decorators()
        classes = {scope.qualname: self._class(scope) for scope in self.index.classes}
        exports: dict[str, str] = {}
        module = self.index.module
        for name in module.bindings:
            target = self.names.plain(name, module)
            if target is not None:
                exports[name] = target
        imports = {
            binding.target
            for scope in (module, *self.index.functions)
            for bindings in scope.bindings.values()
            for binding in bindings
            if binding.target is not None
        }
        placed, entries = placing(self.index, self.names, imports), entering(self.index, self.names)
        functions: dict[str, FunctionFacts] = {}
        for scope in self.index.functions:
            drawn = self._function(scope, places=id(scope) in placed)
            former = functions.get(scope.qualname)  # as of a property that is set, too, or of two branches
            if former is not None:
                kept = former if _sets(scope.node) else drawn
                drawn = kept._replace(calls=(*former.calls, *drawn.calls))
            functions[scope.qualname] = drawn
        return ModuleFacts(
            self.name,
            self.path,
            exports,
            tuple(module.stars),
            functions,
            classes,
            tuple(self.roots),
            tuple(sorted(imports | set(module.stars) | self.index.inner_imports)),
            id(module) in placed,
            bool(placed),
            bool(entries),
            not entries <= {id(node) for node in of_main(module.node)},
            self._trains(),
            tuple(self.calls[id(module)]),
            aliases(self.index, self.names),
            backward=self._calls_backward(),
            entries=tuple(self._entries()),
            tables=dict(self._tables()),
            cuda_default=makes_cuda_default(self.index, self.names),
            moves=moves_at_import(self.index, self.names),
            unwraps=asks_for_module(self.index, self.names),
            prefixes=asks_for_prefix(self.index),
            chosen=tuple(chosen_imports(self.name, self.names)),
            is_started=any(True for _ in of_main(module.node)),
            mentions=tuple(
                CallFact(f"name:{function}", *place) for function, place in self.mentioned[id(module)].items()
            ),
            hands=tuple(self.hands[id(module)]),
        )

    def _calls_backward(self) -> bool:
        calls = (node for node, _ in self.index.calls.get("backward", ()) if isinstance(node, ast.Call))
        return any(
            isinstance(call.func, ast.Attribute) and (not call.args or handed_to_accelerate(call) is not None)
            for call in calls
        )

    def _trains(self) -> bool:
        zeroed = (scope.function for _, scope in self.index.calls.get("zero_grad", ()))
        if any(function is None or function.name != "zero_grad" for function in zeroed):
            return True  # in a function of that name an optimizer hands it on to another one
        return any(self.names.calls_of(GRADIENT_ENTRIES))

    def _calls(self) -> None:
        own = self.name.partition(".")[0]
        for node, scope in self.index.nodes[ast.Call]:
            assert isinstance(node, ast.Call)
            entry = self.names.qualified(node.func, scope)
            if entry in TRACE_ENTRIES and node.args:
                self._root(node.args[0], TRACE_ENTRIES[entry], scope, node)
            function = scope.function or self.index.module
            if node.func.__class__ is ast.Attribute and node.func.attr == "register_buffer":
                self._buffer(node, function)
            head = entry.partition(".")[0] if entry is not None else ""
            calls = self.calls[id(function)]
            if head not in LIBRARIES or head == own:
                for reference in references(node.func, scope, self.names):
                    calls[CallFact(reference, node.lineno, node.col_offset + 1)] = None
                    self.hands[id(function)].update(dict.fromkeys(self.handing.of(node, scope, reference)))
            if entry in MAKING or is_chosen(node, scope, self.names):
                calls[CallFact(ANY, node.lineno, node.col_offset + 1)] = None
                for table in (one.id for one in ast.walk(node.func) if isinstance(one, ast.Name)):
                    calls[CallFact(f"name:{self.name}.{table}", node.lineno, node.col_offset + 1)] = None
            if entry in FUNCTIONAL_CALLS and node.args:
                for reference in self._traced(node.args[0], scope):
                    calls[CallFact(reference, node.lineno, node.col_offset + 1)] = None
            if entry in ("builtins.isinstance", "builtins.issubclass"):
                continue
            for argument in node.args:
                self._mention(argument, scope, calls, head)
            for keyword in node.keywords:
                self._mention(keyword.value, scope, calls, head)

    def _methods_at_hand(self) -> None:
        """Methods taken from `self` without a call: properties, and what tables and variables hold."""
        for scope in self.index.functions:
            method = method_around(scope)
            owner = method.owner if method is not None else None
            if owner is None:
                continue
            calls = self.calls[id(scope)]
            called = {call.callee for call in calls}
            node = scope.node
            assert isinstance(node, FunctionNode)
            for attribute in sorted(scope.evidence.get("self", ())):
                bound = owner.bindings.get(attribute, ())
                if f"self:{attribute}" not in called and any(isinstance(b.node, FunctionNode) for b in bound):
                    calls[CallFact(f"self:{attribute}", node.lineno, node.col_offset + 1)] = None

    def _taken_from_tables(self) -> None:
        """A function taken from a table of a module, `LOSSES[name]`, is taken to be called."""
        for node, scope in self.index.nodes[ast.Subscript]:
            assert isinstance(node, ast.Subscript)
            if node.value.__class__ is ast.Name and node.value.id.isupper():
                for reference in references(node.value, scope, self.names):
                    place = CallFact(reference, node.lineno, node.col_offset + 1)
                    self.calls[id(scope.function or self.index.module)][place] = None

    def _tables(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        module = self.index.module
        for name, bindings in module.bindings.items():
            table = bindings[0].value
            held = held_functions(table, module, self.names) if isinstance(table, _TABLES) else ()
            if not held and isinstance(table, ast.Call):
                held = instances(table, module, self.names)
            if held:
                yield name, held

    def _returned(self) -> None:
        """A nested function that is returned is taken to be called."""
        for scope in self.index.functions:
            outer = scope.parent
            if outer is None or outer.kind is not ScopeKind.FUNCTION or isinstance(scope.node, ast.Lambda):
                continue
            body = getattr(outer.node, "body", None)
            for node in body if isinstance(body, list) else ():
                if isinstance(node, ast.Return) and getattr(node.value, "id", None) == scope.name:
                    callee = f"name:{self.name}.{scope.qualname}"
                    self.calls[id(outer)][CallFact(callee, node.lineno, node.col_offset + 1)] = None

    def _mention(self, node: ast.expr, scope: Scope, calls: dict[CallFact, None], head: str) -> None:
        """A function handed to another one, which is of package `head`, is taken to be called by it."""
        if node.__class__ is ast.Name:
            if node.id not in self.defined:
                return
            found = self.names.lookup(node.id, scope)
            if found is None or not any(isinstance(binding.node, FunctionNode) for binding in found[1]):
                return
        elif node.__class__ is ast.Lambda:
            if head in ("torch", "jax", "torchax"):
                name = f"{scope.qualname}.<lambda:{node.lineno}:{node.col_offset}>"
                calls[CallFact(f"name:{self.name}.{name}", node.lineno, node.col_offset + 1)] = None
            return
        elif not (
            node.__class__ is ast.Attribute and node.value.__class__ is ast.Name and node.value.id == "self"
        ):
            return
        for reference in references(node, scope, self.names):
            calls[CallFact(reference, node.lineno, node.col_offset + 1)] = None

    def _root(self, node: ast.expr, label: str, scope: Scope, place: ast.expr) -> None:
        while isinstance(node, ast.Call) and node.args and self.names.qualified(node.func, scope) in WRAPPERS:
            first = node.args[0]
            if len(node.args) > 1 and self.names.qualified(first, scope) in FUNCTIONAL_CALLS:
                first = node.args[1]
            node = first
        if isinstance(node, ast.Lambda):
            name = f"<lambda:{node.lineno}:{node.col_offset}>"
            inside = scope.kind is not ScopeKind.MODULE
            found: tuple[str, ...] = (f"name:{self.name}.{scope.qualname + '.' if inside else ''}{name}",)
        else:
            found = self._traced(node, scope)
        method = method_around(scope)
        owner = method.owner.qualname if method is not None and method.owner is not None else None
        self.roots.extend(Root(ref, label, owner, place.lineno, place.col_offset + 1) for ref in found)

    def _traced(self, node: ast.expr, scope: Scope) -> tuple[str, ...]:
        """References to what is traced where an expression is; of a parameter, to what calls hand to it."""
        found = (*references(node, scope, self.names), *instances(node, scope, self.names))
        parameter = given(node, scope, self.names) if not found else None
        return (parameter,) if parameter is not None else tuple(dict.fromkeys(found))

    def _decorators(self) -> None:
        for scope in self.index.functions:
            node = scope.node
            if isinstance(node, ast.Lambda):
                continue
            assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and scope.parent is not None
            for decorator in node.decorator_list:
                inner: ast.expr = decorator
                for reference in references(decorator, scope.parent, self.names):
                    if reference.startswith(f"name:{self.name.partition('.')[0]}."):
                        place = CallFact(reference, decorator.lineno, decorator.col_offset + 1)
                        self.calls[id(scope)][place] = None
                if isinstance(inner, ast.Call):
                    partial = self.names.qualified(inner.func, scope.parent) == "functools.partial"
                    inner = inner.args[0] if partial and inner.args else inner.func
                label = TRACE_ENTRIES.get(self.names.qualified(inner, scope.parent) or "")
                if label is not None:
                    owner = scope.owner.qualname if scope.owner is not None else None
                    callee = f"name:{self.name}.{scope.qualname}"
                    self.roots.append(Root(callee, label, owner, decorator.lineno, decorator.col_offset + 1))

    def _buffer(self, node: ast.Call, function: Scope) -> None:
        method = method_around(function)
        if (
            method is not None
            and method.owner is not None
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            self.tensors.setdefault(method.owner.qualname, set()).add(str(node.args[0].value))

    def _function(self, scope: Scope, *, places: bool) -> FunctionFacts:
        node = scope.node
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        owner = scope.owner.qualname if scope.owner is not None else None
        returns = declared(scope, self.names)
        undeclared, tensors = tensor_parameters(scope, self.used, self.names)
        return FunctionFacts(
            scope.qualname,
            owner,
            node.lineno,
            node.col_offset + 1,
            tuple(self.calls[id(scope)]),
            returns,
            places,
            is_offered(scope, returns, self.names),
            first_taken(scope, self.names, tensors),
            infers(scope, self.names),
            takes_module(scope),
            id(scope) in self._filing,
            makes_on_device(scope),
            id(scope) in self._training_apart,
            tuple(self.mentioned.get(id(scope), ())),
            tuple(positional(scope)),
            undeclared,
            tensors,
            tuple(self.hands[id(scope)]),
            self._makes(scope),
            self.on_host.given(scope),
        )

    def _makes(self, scope: Scope) -> tuple[str, ...]:
        """References to the calls of the instances that a function may give."""
        given = (value for value in scope.returned if value is not None)
        found = (ref for value in given for ref in instances(value, scope, self.names))
        return tuple(dict.fromkeys(found))

    @cached_property
    def _training_apart(self) -> set[int]:
        return training_apart(self.index)

    @cached_property
    def _filing(self) -> set[int]:
        """Functions that make pictures or files, or hold others that do, by identity."""
        found: set[int] = set()
        for _, place in self.names.calls_of(FILING):
            scope = place.function
            while scope is not None:
                found.add(id(scope))
                scope = scope.parent.function if scope.parent is not None else None
        return found

    def _entries(self) -> Iterator[str]:
        for node, scope in self.index.entries:
            made = self.names.qualified(node.func, scope) if isinstance(node, ast.Call) else None
            if made is not None and self.made.is_class(made):
                yield made

    def _bases(self, node: ast.ClassDef, scope: Scope) -> Iterator[str]:
        """The names of a class's bases; one that several star imports may bring goes by all of them."""
        for expression in map(_unsubscripted, node.bases):
            base = self.names.qualified(expression, scope)
            if base is not None:
                yield base
            elif len(self.index.module.stars) > 1:
                text = dotted(expression)
                if text is not None and self.names.lookup(text.partition(".")[0], scope) is None:
                    yield from (f"{star}.{text}" for star in self.index.module.stars)
            else:
                yield SOME_BASE

    def _class(self, scope: Scope) -> ClassFacts:
        node = scope.node
        assert isinstance(node, ast.ClassDef) and scope.parent is not None
        bases = tuple(self._bases(node, scope.parent))
        modules: dict[str, dict[str, None]] = {}
        functions: dict[str, dict[str, None]] = {}
        tensors = self.tensors.get(scope.qualname, set())
        computed = set[str]()
        for attribute, value, place in self.attributes.get(scope.qualname, ()):
            if place.function is not None and place.function.name == "forward":
                computed.add(attribute)
            held = held_functions(value, place, self.names)
            if held:
                functions.setdefault(attribute, {}).update(dict.fromkeys(held))
            for made in self.made.for_value(value, place):
                if made in ("torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer"):
                    tensors.add(attribute)
                else:
                    modules.setdefault(attribute, {})[made] = None
        methods = sorted(
            name
            for name, bound in scope.bindings.items()
            if any(isinstance(b.node, FunctionNode) for b in bound)
        )
        return ClassFacts(
            scope.qualname,
            bases,
            tuple(methods),
            {name: tuple(made) for name, made in modules.items()},
            {name: tuple(held) for name, held in functions.items()},
            tuple(sorted(tensors)),
            node.lineno,
            node.col_offset + 1,
            tuple(sorted(computed)),
            changes_itself(node),
        )


def _sets(node: ast.AST) -> bool:
    """Whether a function is what a property does when it is set or deleted."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return any(isinstance(one, ast.Attribute) and one.attr in ("setter", "deleter") for one in decorators)


def _unsubscripted(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript) else node


def summarise(name: str, path: str, index: Index, names: Names) -> ModuleFacts:
    """The facts of one module."""
    return _Summary(name, path, index, names).summarise()
