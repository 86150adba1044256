"""Facts: what one module tells the others, small enough to send between processes and to store.

`summarise` draws them from a module's index; `project.link` puts all modules' facts together.
A callee is written as a reference, a string of one of the forms

    name:pkg.module.function      a qualified name
    self:attribute.method         a path from the instance whose method makes the call
    super:method                  a method of the bases
    new:pkg.module.Class:method   a path from an instance made by calling the class
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from tpulint.knowledge.tracing import DEVICE_STRING, ENVIRONMENT_ENTRIES, LIBRARIES, TRACE_ENTRIES, WRAPPERS
from tpulint.model.names import Names
from tpulint.model.scopes import FunctionNode, Index, Scope, ScopeKind


class CallFact(NamedTuple):
    """A call or a mention of a function: what, and where it stands (row and column from 1)."""

    callee: str
    row: int
    column: int


class FunctionFacts(NamedTuple):
    """A function: where it is, what it calls, and its return annotation with qualified names.

    `places` says that it puts something on a device that is not the host's.
    """

    qualname: str
    owner: str | None
    row: int
    column: int
    calls: tuple[CallFact, ...]
    returns: str
    places: bool


class ClassFacts(NamedTuple):
    """A class: its bases, its methods, and what its attributes hold.

    `modules` gives for an attribute the classes that are instantiated for it (the elements, for a
    `ModuleList` or `Sequential`); `tensors` names parameters and buffers.
    """

    qualname: str
    bases: tuple[str, ...]
    methods: tuple[str, ...]
    modules: dict[str, tuple[str, ...]]
    tensors: tuple[str, ...]
    row: int
    column: int


class Root(NamedTuple):
    """A place where tracing begins: the function that is traced, by which means, and where."""

    callee: str
    label: str
    owner: str | None
    row: int
    column: int


class ModuleFacts(NamedTuple):
    """All that the project needs to know of one module.

    `places` says that its top level, `placed_anywhere` that any of its code puts something on a device that
    is not the host's, `enters` that it enters the torchax environment.
    """

    name: str
    path: str
    exports: dict[str, str]
    stars: tuple[str, ...]
    functions: dict[str, FunctionFacts]
    classes: dict[str, ClassFacts]
    roots: tuple[Root, ...]
    imports: tuple[str, ...]
    places: bool
    placed_anywhere: bool
    enters: bool


def references(node: ast.AST, scope: Scope, names: Names, *, depth: int = 0) -> tuple[str, ...]:
    """What a callee expression may refer to, as references; empty where nobody knows."""
    path: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            path.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript):
            node = node.value
        else:
            break
    tail = ".".join(reversed(path))
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id == "super" and tail:
            return (f"super:{tail}",)
        made = names.qualified(node.func, scope)
        return (f"new:{made}:{tail or '__call__'}",) if made is not None else ()
    if not isinstance(node, ast.Name):
        return ()
    if node.id in ("self", "cls") and _method(scope) is not None:
        return (f"self:{tail}",) if tail else ()
    found = names.lookup(node.id, scope)
    if found is not None and depth < 3:
        owner, bindings = found
        if node.id in owner.loops:
            return tuple(
                _extend(ref, tail)
                for ref in references(_looped(owner.loops[node.id]), scope, names, depth=depth + 1)
            )
        values = [binding.value for binding in bindings if binding.value is not None]
        if values and len(values) == len(bindings) <= 3 and owner.kind is not ScopeKind.CLASS:
            refs: list[str] = []
            for value in values:
                if isinstance(value, ast.Call):
                    made = names.qualified(value.func, owner)
                    if made in WRAPPERS and value.args:
                        refs.extend(references(value.args[0], owner, names, depth=depth + 1))
                    elif made is not None:
                        refs.append(f"new:{made}:{tail or '__call__'}")
                elif isinstance(value, ast.Attribute | ast.Subscript):
                    refs.extend(
                        _extend(ref, tail) for ref in references(value, owner, names, depth=depth + 1)
                    )
            if refs:
                return tuple(refs)
    qualified = names.qualified(node, scope)
    if qualified is None:
        return ()
    return (f"name:{qualified}.{tail}" if tail else f"name:{qualified}",)


def _extend(reference: str, tail: str) -> str:
    if not tail:
        return reference
    if reference.startswith("new:") and reference.endswith(":__call__"):
        return f"{reference[: -len('__call__')]}{tail}"
    return f"{reference}.{tail}"


def _looped(node: ast.expr) -> ast.expr:
    """What is iterated over, `enumerate`, `zip`, `reversed` and dictionary views looked through."""
    while isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.args:
            node = node.args[0]
        elif isinstance(node.func, ast.Attribute) and node.func.attr in ("values", "children", "items"):
            node = node.func.value
        else:
            break
    return node


def _method(scope: Scope) -> Scope | None:
    """The method that a scope is or lies in."""
    current: Scope | None = scope
    while current is not None:
        if current.kind is ScopeKind.FUNCTION and current.owner is not None:
            return current
        current = current.parent
    return None


class _Summary:
    """Collects one module's facts."""

    def __init__(self, name: str, path: str, index: Index, names: Names) -> None:
        self.name = name
        self.path = path
        self.index = index
        self.names = names
        self.calls: dict[int, dict[CallFact, None]] = {id(scope): {} for scope in index.functions}
        self.roots: list[Root] = []
        self.tensors: dict[str, set[str]] = {}

    def summarise(self) -> ModuleFacts:
        self._calls()
        self._decorators()
        classes = {scope.qualname: self._class(scope) for scope in self.index.classes}
        exports: dict[str, str] = {}
        module = self.index.module
        for name in module.bindings:
            target = self.names.qualified(ast.Name(name, ast.Load()), module)
            if target is not None:
                exports[name] = target
        imports = {
            binding.target
            for scope in (module, *self.index.functions)
            for bindings in scope.bindings.values()
            for binding in bindings
            if binding.target is not None
        }
        placing = self._placing(imports)
        functions = {
            scope.qualname: self._function(scope, places=id(scope) in placing)
            for scope in self.index.functions
        }
        return ModuleFacts(
            self.name,
            self.path,
            exports,
            tuple(module.stars),
            functions,
            classes,
            tuple(self.roots),
            tuple(sorted(imports | set(module.stars))),
            id(module) in placing,
            bool(placing),
            self._enters(),
        )

    def _placing(self, imports: set[str]) -> set[int]:
        """Functions, and the module, that name a device which is not the host's, by identity."""
        if not any(name.partition(".")[0] == "torch" for name in imports):
            return set()
        named = [
            scope
            for node, scope in self.index.nodes[ast.Constant]
            if isinstance(node, ast.Constant) and DEVICE_STRING.match(str(node.value))
        ]
        called = [scope for _, scope in self.index.calls.get("cuda", ())]
        return {id(scope.function or self.index.module) for scope in (*named, *called)}

    def _enters(self) -> bool:
        return any(
            self.names.qualified(node.func, scope) in ENVIRONMENT_ENTRIES
            for name in ("enable_globally", "default_env", "Environment")
            for node, scope in self.index.calls.get(name, ())
            if isinstance(node, ast.Call)
        )

    def _calls(self) -> None:
        for node, scope in self.index.nodes[ast.Call]:
            assert isinstance(node, ast.Call)
            entry = self.names.qualified(node.func, scope)
            if entry in TRACE_ENTRIES and node.args:
                self._root(node.args[0], TRACE_ENTRIES[entry], scope, node)
            function = scope.function
            if function is None:
                continue
            if node.func.__class__ is ast.Attribute and node.func.attr == "register_buffer":
                self._buffer(node, function)
            head = entry.partition(".")[0] if entry is not None else ""
            calls = self.calls[id(function)]
            if head not in LIBRARIES:
                for reference in references(node.func, scope, self.names):
                    calls[CallFact(reference, node.lineno, node.col_offset + 1)] = None
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                if argument.__class__ is ast.Attribute or argument.__class__ is ast.Name:
                    self._mention(argument, scope, calls)
                elif isinstance(argument, ast.Lambda) and head in ("torch", "jax", "torchax"):
                    name = f"{scope.qualname}.<lambda:{argument.lineno}:{argument.col_offset}>"
                    calls[CallFact(f"name:{self.name}.{name}", argument.lineno, argument.col_offset + 1)] = (
                        None
                    )

    def _mention(self, node: ast.expr, scope: Scope, calls: dict[CallFact, None]) -> None:
        """A function handed to another one is taken to be called by it."""
        if isinstance(node, ast.Name):
            found = self.names.lookup(node.id, scope)
            if found is None or not any(binding.node is not None for binding in found[1]):
                return
        elif not (
            isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
        ):
            return
        for reference in references(node, scope, self.names):
            calls[CallFact(reference, node.lineno, node.col_offset + 1)] = None

    def _root(self, node: ast.expr, label: str, scope: Scope, place: ast.expr) -> None:
        while isinstance(node, ast.Call) and node.args and self.names.qualified(node.func, scope) in WRAPPERS:
            node = node.args[0]
        if isinstance(node, ast.Lambda):
            name = f"<lambda:{node.lineno}:{node.col_offset}>"
            inside = scope.kind is not ScopeKind.MODULE
            found: tuple[str, ...] = (f"name:{self.name}.{scope.qualname + '.' if inside else ''}{name}",)
        else:
            found = references(node, scope, self.names)
        method = _method(scope)
        owner = method.owner.qualname if method is not None and method.owner is not None else None
        self.roots.extend(Root(ref, label, owner, place.lineno, place.col_offset + 1) for ref in found)

    def _decorators(self) -> None:
        for scope in self.index.functions:
            node = scope.node
            if isinstance(node, ast.Lambda):
                continue
            assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and scope.parent is not None
            for decorator in node.decorator_list:
                inner: ast.expr = decorator
                if isinstance(inner, ast.Call):
                    partial = self.names.qualified(inner.func, scope.parent) == "functools.partial"
                    inner = inner.args[0] if partial and inner.args else inner.func
                label = TRACE_ENTRIES.get(self.names.qualified(inner, scope.parent) or "")
                if label is not None:
                    owner = scope.owner.qualname if scope.owner is not None else None
                    callee = f"name:{self.name}.{scope.qualname}"
                    self.roots.append(Root(callee, label, owner, decorator.lineno, decorator.col_offset + 1))

    def _buffer(self, node: ast.Call, function: Scope) -> None:
        method = _method(function)
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
        returns = ""
        if not isinstance(node, ast.Lambda) and node.returns is not None and scope.parent is not None:
            returns = self._annotation(node.returns, scope.parent)
        return FunctionFacts(
            scope.qualname,
            owner,
            node.lineno,
            node.col_offset + 1,
            tuple(self.calls[id(scope)]),
            returns,
            places,
        )

    def _annotation(self, node: ast.expr, scope: Scope) -> str:
        """An annotation as text in which every name is qualified, so that another module can read it."""
        match node:
            case ast.Constant(value=str() as text):
                try:
                    return self._annotation(ast.parse(text, mode="eval").body, scope)
                except (SyntaxError, ValueError):
                    return ""
            case ast.Name() | ast.Attribute():
                return self.names.qualified(node, scope) or ""
            case ast.Subscript():
                inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                head = self._annotation(node.value, scope)
                parts = [self._annotation(item, scope) for item in inner]
                return f"{head}[{', '.join(parts)}]" if head and all(parts) else ""
            case ast.BinOp(op=ast.BitOr()):
                left, right = self._annotation(node.left, scope), self._annotation(node.right, scope)
                return f"{left} | {right}" if left and right else ""
            case ast.Constant(value=None):
                return "None"
            case ast.Constant(value=value) if value is ...:
                return "..."
            case _:
                return ""

    def _class(self, scope: Scope) -> ClassFacts:
        node = scope.node
        assert isinstance(node, ast.ClassDef) and scope.parent is not None
        bases = tuple(
            base
            for expression in node.bases
            if (base := self.names.qualified(_unsubscripted(expression), scope.parent)) is not None
        )
        modules: dict[str, dict[str, None]] = {}
        tensors = self.tensors.get(scope.qualname, set())
        for attribute, value, place in self.index.attributes:
            method = _method(place)
            if method is None or method.owner is not scope:
                continue
            for made in self._made(value, place):
                if made == "torch.nn.Parameter" or made == "torch.nn.parameter.Parameter":
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
            tuple(sorted(tensors)),
            node.lineno,
            node.col_offset + 1,
        )

    def _made(self, value: ast.expr, scope: Scope) -> list[str]:
        """Classes (by the convention of a capital letter) that an expression instantiates."""
        found: list[str] = []
        for node in ast.walk(value):
            if not isinstance(node, ast.Call):
                continue
            made = self.names.qualified(node.func, scope) or self._default(node.func, scope)
            if made is not None and made.rpartition(".")[2][:1].isupper():
                found.append(made)
        return found

    def _default(self, node: ast.expr, scope: Scope) -> str | None:
        """The class that a parameter stands for by default: `norm_layer=nn.LayerNorm`."""
        function = scope.function
        if not isinstance(node, ast.Name) or function is None or not isinstance(function.node, FunctionNode):
            return None
        arguments = function.node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = dict(
            zip([a.arg for a in reversed(positional)], reversed(arguments.defaults), strict=False)
        )
        defaults |= {
            a.arg: default
            for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if default is not None
        }
        default = defaults.get(node.id)
        if default is None or function.parent is None:
            return None
        return self.names.qualified(default, function.parent)


def _unsubscripted(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript) else node


def summarise(name: str, path: str, index: Index, names: Names) -> ModuleFacts:
    """The facts of one module."""
    return _Summary(name, path, index, names).summarise()
