"""One walk over a tree: its scopes, and the nodes that rules may ask for.

Everything after this looks things up; nothing walks a whole file again.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tpulint.knowledge.tracing import is_device_word
from tpulint.model.names.loop_targets import unpacked
from tpulint.model.names.scopes import Binding, FunctionNode, Scope, ScopeKind, parameters

#: A node and the scope in which its names are looked up.
Place = tuple[ast.AST, Scope]

#: Node types of which all places are kept.
INDEXED: tuple[type[ast.AST], ...] = (
    ast.Assert,
    ast.AugAssign,
    ast.BoolOp,
    ast.Call,
    ast.Compare,
    ast.For,
    ast.FormattedValue,
    ast.If,
    ast.IfExp,
    ast.Import,
    ast.ImportFrom,
    ast.Subscript,
    ast.Try,
    ast.UnaryOp,
    ast.While,
)


class Index:
    """What the walk found: the scopes, and places by node type and by the last name of a callee."""

    def __init__(self, module: Scope) -> None:
        self.module = module
        self.nodes: dict[type[ast.AST], list[Place]] = {kind: [] for kind in INDEXED}
        #: Calls by the last identifier of what is called: `x.sum()` and `sum(x)` both under "sum".
        self.calls: dict[str, list[Place]] = {}
        #: Calls by the names of the keyword arguments that they pass, those that unpack a mapping under `**`.
        self.passing: dict[str, list[Place]] = {}
        #: Attributes that are taken of anything, by name.
        self.taken: dict[str, list[Place]] = {}
        #: Short string constants by what they say.
        self.texts: dict[str, list[Place]] = {}
        #: The modules within packages that `import a.b` imports, which binds `a` alone.
        self.inner_imports: set[str] = set()
        #: Other names that imports and assignments give to what is called, by its own last identifier.
        self.aliases: dict[str, set[str]] = {}
        self.functions: list[Scope] = []
        self.classes: list[Scope] = []
        #: Assignments to `self.<name>`: the name, the value, the scope.
        self.attributes: list[tuple[str, ast.expr, Scope]] = []
        #: Large integers: constants from `LARGE` on, and powers and shifts of constants.
        self.large: list[Place] = []
        #: Plain assignments to anything but a name: the target, the value.
        self.stored: list[tuple[ast.expr, ast.expr]] = []
        #: Calls whose results are entries of dictionaries: `d[key] = f()`, `d = {key: f()}`.
        self.entries: list[Place] = []
        #: Reads of plain names that sound like a device's.
        self.named: list[Place] = []

    @functools.cached_property
    def numbered(self) -> dict[str, set[int]]:
        """Variables of which items are read by number, with the numbers."""
        found: dict[str, set[int]] = {}
        for node, _ in self.nodes[ast.Subscript]:
            match node:
                case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int() as number)):
                    found.setdefault(name, set()).add(number)
        return found

    @functools.cached_property
    def mapped(self) -> frozenset[str]:
        """Variables that are looked into by a text, or asked for what only mappings have."""
        found = {
            node.value.id
            for asked in ("keys", "items", "get", "setdefault")
            for node, _ in self.taken.get(asked, ())
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        }
        for node, _ in self.nodes[ast.Subscript]:
            match node:
                case ast.Subscript(
                    value=ast.Name(id=name), slice=ast.Constant(value=str()) | ast.JoinedStr()
                ):
                    found.add(name)
        for node, _ in self.nodes[ast.Compare]:
            match node:
                case ast.Compare(left=ast.Constant(value=str()), comparators=[ast.Name(id=name)]):
                    found.add(name)
        return frozenset(found)

    def function(self, node: ast.AST) -> Scope | None:
        """The scope that a function's node opens; None for other nodes."""
        return self._by_node.get(id(node))

    @functools.cached_property
    def _by_node(self) -> dict[int, Scope]:
        return {id(scope.node): scope for scope in self.functions}


#: From here on, products with an integer often need more than 32 bits.
LARGE = 1 << 20
#: Fields of nodes that hold no nodes but those which only say how it is meant.
_PLAIN = frozenset({"attr", "conversion", "ctx", "id", "kind", "name", "op", "ops", "type_comment"})
#: For each kind of node the fields that may hold others.
_PARTS = {
    kind: tuple(name for name in kind._fields if name not in _PLAIN)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
_LEAVES = frozenset({int, str, type(None), bool, float, bytes, complex, type(Ellipsis)})


def within(top: ast.AST) -> list[ast.AST]:
    """A node and all nodes within it, in the order of `ast.walk`, which takes twice as long.

    Nodes that only say how another one is meant, such as `ast.Load` and `ast.Add`, are left out.
    """
    found = [top]
    for node in found:
        held = node.__dict__
        for name in _PARTS[node.__class__]:
            value: Any = held.get(name)
            kind = value.__class__
            if kind is list:
                found += [item for item in value if item.__class__ not in _LEAVES]
            elif kind not in _LEAVES:
                found.append(value)
    return found


class _Walk:
    """The walk itself; lives for one file."""

    def __init__(self, tree: ast.Module, package: str, renamed: Mapping[str, str]) -> None:
        self.package = package
        self.renamed = renamed
        self.index = Index(Scope(ScopeKind.MODULE, tree, "<module>", None))
        self.handlers: dict[type, Callable[[ast.AST, Scope], None]] = {
            ast.FunctionDef: self.function,
            ast.AsyncFunctionDef: self.function,
            ast.Lambda: self.anonymous,
            ast.ClassDef: self.class_,
            **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp), self.comprehension),
            ast.Import: self.import_,
            ast.ImportFrom: self.import_from,
            ast.Name: self.name,
            ast.Return: self.return_,
            **dict.fromkeys((ast.Yield, ast.YieldFrom), self.yield_),
            ast.Assign: self.assign,
            ast.AnnAssign: self.annotated,
            ast.Call: self.call,
            ast.Attribute: self.attribute,
            ast.Constant: self.constant,
            ast.BinOp: self.binary,
            ast.Global: self.declare,
            ast.Nonlocal: self.declare,
            ast.ExceptHandler: self.handler,
            ast.For: self.loop,
            ast.AsyncFor: self.loop,
            **dict.fromkeys((ast.MatchAs, ast.MatchStar, ast.MatchMapping), self.capture),
        }
        for kind in INDEXED:
            if kind not in self.handlers:
                self.handlers[kind] = self.indexed
        self.calls = self.index.calls
        self.passing = self.index.passing
        self.taken = self.index.taken
        self.texts = self.index.texts
        self.call_nodes = self.index.nodes[ast.Call]

    def visit(self, node: ast.AST, scope: Scope) -> None:
        handler = self.handlers.get(node.__class__)
        if handler is not None:
            handler(node, scope)
        else:
            self.children(node, scope)

    def children(self, node: ast.AST, scope: Scope) -> None:
        leaves, handlers, held = _LEAVES, self.handlers, node.__dict__
        for name in _PARTS[node.__class__]:
            value = held[name]
            kind = value.__class__
            if kind in leaves:
                continue
            if kind is list:
                for item in value:
                    handler = handlers.get(item.__class__)
                    if handler is not None:
                        handler(item, scope)
                    elif item.__class__ not in leaves:
                        self.children(item, scope)
            else:
                handler = handlers.get(kind)
                if handler is not None:
                    handler(value, scope)
                else:
                    self.children(value, scope)

    def all(self, nodes: Iterable[ast.AST | None], scope: Scope) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node, scope)

    def function(self, node: ast.AST, scope: Scope) -> None:
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        scope.bind(node.name, Binding(node=node))
        self.all(node.decorator_list, scope)
        inner = self.parameters(node, node.name, scope)
        if node.returns is not None:
            self.visit(node.returns, scope)
        self.all(node.body, inner)

    def anonymous(self, node: ast.AST, scope: Scope) -> None:
        assert isinstance(node, ast.Lambda)
        inner = self.parameters(node, f"<lambda:{node.lineno}:{node.col_offset}>", scope)
        self.visit(node.body, inner)

    def parameters(self, node: FunctionNode, name: str, scope: Scope) -> Scope:
        arguments = node.args
        self.all(arguments.defaults, scope)
        self.all(arguments.kw_defaults, scope)
        while (
            scope.kind is ScopeKind.COMPREHENSION
            and scope.parent is not None
            and not isinstance(node, ast.Lambda)
        ):
            scope = scope.parent
        inner = Scope(ScopeKind.FUNCTION, node, name, scope)
        self.index.functions.append(inner)
        for argument in parameters(node):
            inner.bindings[argument.arg] = [Binding()]
            if argument.annotation is not None:
                self.visit(argument.annotation, scope)
        return inner

    def class_(self, node: ast.AST, scope: Scope) -> None:
        assert isinstance(node, ast.ClassDef)
        scope.bind(node.name, Binding(node=node))
        self.all(node.decorator_list, scope)
        self.all(node.bases, scope)
        self.all((keyword.value for keyword in node.keywords), scope)
        inner = Scope(ScopeKind.CLASS, node, node.name, scope)
        self.index.classes.append(inner)
        self.all(node.body, inner)

    def comprehension(self, node: ast.AST, scope: Scope) -> None:
        assert isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp)
        self.visit(node.generators[0].iter, scope)
        inner = Scope(
            ScopeKind.COMPREHENSION, node, f"<comprehension:{node.lineno}:{node.col_offset}>", scope
        )
        for number, generator in enumerate(node.generators):
            for target in ast.walk(generator.target):
                if isinstance(target, ast.Name):
                    inner.bindings.setdefault(target.id, []).append(Binding())
                    if target is generator.target:
                        inner.loops[target.id] = generator.iter
            inner.unpacked |= unpacked(generator.target, generator.iter)
            if number:
                self.visit(generator.iter, inner)
            self.all(generator.ifs, inner)
        if isinstance(node, ast.DictComp):
            self.visit(node.key, inner)
            self.visit(node.value, inner)
        else:
            self.visit(node.elt, inner)

    def import_(self, node: ast.AST, scope: Scope) -> None:
        assert isinstance(node, ast.Import)
        self.index.nodes[ast.Import].append((node, scope))
        for alias in node.names:
            if alias.asname is not None:
                scope.bind(alias.asname, Binding(target=self.renamed.get(alias.name, alias.name)))
            else:
                head, dot, inner = alias.name.partition(".")
                target = self.renamed.get(head, head)
                scope.bind(head, Binding(target=target))
                if dot:
                    self.index.inner_imports.add(f"{target}.{inner}")

    def import_from(self, node: ast.AST, scope: Scope) -> None:
        assert isinstance(node, ast.ImportFrom)
        self.index.nodes[ast.ImportFrom].append((node, scope))
        base = absolute(node.module, node.level, self.package)
        base = self.renamed.get(base, base)
        for alias in node.names:
            if alias.name == "*":
                scope.stars.append(base)
            else:
                scope.bind(alias.asname or alias.name, Binding(target=f"{base}.{alias.name}"))
                if alias.asname is not None:
                    self.index.aliases.setdefault(alias.name, set()).add(alias.asname)

    def name(self, node: ast.AST, scope: Scope) -> None:
        assert isinstance(node, ast.Name)
        context = node.ctx.__class__
        if context is ast.Store or (context is ast.Del and node.id not in scope.bindings):
            scope.bind(node.id, Binding())
            return
        scope.loads.setdefault(node.id, node)
        if is_device_word(node.id):
            self.index.named.append((node, scope))

    def return_(self, node: ast.AST, scope: Scope) -> None:
        assert isinstance(node, ast.Return)
        scope.returned.append(node.value)
        if node.value is not None:
            self.visit(node.value, scope)

    def yield_(self, node: ast.AST, scope: Scope) -> None:
        scope.yields = True
        self.children(node, scope)

    def assign(self, node: ast.AST, scope: Scope) -> None:
        assert isinstance(node, ast.Assign)
        for whole in node.targets:
            if whole.__class__ is not ast.Name:
                self.index.stored.append((whole, node.value))
            for target, value in _pairs(whole, node.value):
                if target.__class__ is ast.Name:
                    scope.bind(target.id, Binding(value=value))
                    if value.__class__ is ast.Attribute:
                        self.index.aliases.setdefault(value.attr, set()).add(target.id)
                else:
                    self.assigned(target, value, scope)
                    self.visit(target, scope)
        if node.value.__class__ is ast.Dict:
            self.index.entries += [(v, scope) for v in node.value.values if v.__class__ is ast.Call]
        self.visit(node.value, scope)

    def assigned(self, target: ast.expr, value: ast.expr, scope: Scope) -> None:
        if (
            isinstance(target, ast.Attribute)
            and isinstance(target.value, ast.Name)
            and target.value.id == "self"
        ):
            self.index.attributes.append((target.attr, value, scope))
        elif isinstance(target, ast.Subscript) and isinstance(value, ast.Call):
            self.index.entries.append((value, scope))

    def annotated(self, node: ast.AST, scope: Scope) -> None:
        assert isinstance(node, ast.AnnAssign)
        if isinstance(node.target, ast.Name):
            if node.value is not None or scope.kind is not ScopeKind.MODULE:
                scope.bind(node.target.id, Binding(value=node.value))
        else:
            if node.value is not None:
                self.assigned(node.target, node.value, scope)
            self.visit(node.target, scope)
        self.visit(node.annotation, scope)
        if node.value is not None:
            self.visit(node.value, scope)

    def call(self, node: ast.AST, scope: Scope) -> None:
        assert isinstance(node, ast.Call)
        place = (node, scope)
        self.call_nodes.append(place)
        func = node.func
        if isinstance(func, ast.Attribute):
            self.calls.setdefault(func.attr, []).append(place)
        elif isinstance(func, ast.Name):
            self.calls.setdefault(func.id, []).append(place)
        self.visit(func, scope)
        for argument in node.args:
            if argument.__class__ is ast.Name:
                scope.passed.setdefault(argument.id, []).append(node)
            self.visit(argument, scope)
        for keyword in node.keywords:
            self.passing.setdefault(keyword.arg or "**", []).append(place)
            if keyword.value.__class__ is ast.Name:
                scope.passed.setdefault(keyword.value.id, []).append(node)
            self.visit(keyword.value, scope)

    def attribute(self, node: ast.AST, scope: Scope) -> None:
        assert isinstance(node, ast.Attribute)
        self.taken.setdefault(node.attr, []).append((node, scope))
        value = node.value
        if value.__class__ is ast.Name:
            scope.evidence.setdefault(value.id, set()).add(node.attr)
        else:
            self.visit(value, scope)

    def constant(self, node: ast.AST, scope: Scope) -> None:
        assert isinstance(node, ast.Constant)
        if node.value.__class__ is str and len(node.value) < 64:
            self.texts.setdefault(node.value, []).append((node, scope))
        elif node.value.__class__ is int and node.value >= LARGE:
            self.index.large.append((node, scope))

    def binary(self, node: ast.AST, scope: Scope) -> None:
        assert isinstance(node, ast.BinOp)
        if node.op.__class__ in (ast.Pow, ast.LShift):
            self.index.large.append((node, scope))
        self.children(node, scope)

    def indexed(self, node: ast.AST, scope: Scope) -> None:
        self.index.nodes[node.__class__].append((node, scope))
        self.children(node, scope)

    def declare(self, node: ast.AST, scope: Scope) -> None:
        assert isinstance(node, ast.Global | ast.Nonlocal)
        for name in node.names:
            home = self.index.module
            if isinstance(node, ast.Nonlocal):
                home = next((outer for outer in _outer_functions(scope) if name in outer.bindings), home)
            scope.declared[name] = home

    def handler(self, node: ast.AST, scope: Scope) -> None:
        assert isinstance(node, ast.ExceptHandler)
        if node.name is not None:
            scope.bind(node.name, Binding())
        self.children(node, scope)

    def loop(self, node: ast.AST, scope: Scope) -> None:
        assert isinstance(node, ast.For | ast.AsyncFor)
        if isinstance(node, ast.For):
            self.index.nodes[ast.For].append((node, scope))
        if isinstance(node.target, ast.Name):
            scope.loops[node.target.id] = node.iter
        scope.unpacked |= unpacked(node.target, node.iter)
        self.children(node, scope)

    def capture(self, node: ast.AST, scope: Scope) -> None:
        name = node.rest if isinstance(node, ast.MatchMapping) else getattr(node, "name", None)
        if name is not None:
            scope.bind(name, Binding())
        self.children(node, scope)


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """What an assignment assigns to what: one by one where both sides are written out."""
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
        return [(target, value)]
    if any(isinstance(one, ast.Starred) for one in (*target.elts, *value.elts)):
        return [(target, value)]
    return list(zip(target.elts, value.elts, strict=False))  # of other lengths, it raises


def _outer_functions(scope: Scope) -> Iterator[Scope]:
    outer = scope.parent
    while outer is not None:
        if outer.kind is ScopeKind.FUNCTION:
            yield outer
        outer = outer.parent


def absolute(module: str | None, level: int, package: str) -> str:
    """The absolute name of what `from ..module import` names inside `package`."""
    if not level:
        return module or ""
    parts = package.split(".")
    base = parts[: len(parts) - level + 1] if level <= len(parts) else []
    return ".".join([*base, module] if module else base)


def index(tree: ast.Module, package: str, renamed: Mapping[str, str]) -> Index:
    """Walk a module's tree.

    Args:
        tree: the module.
        package: the dotted name that its relative imports start from.
        renamed: names that modules of the project go by, where that is not what imports call them.
    """
    walk = _Walk(tree, package, renamed)
    walk.all(tree.body, walk.index.module)
    walk.handlers.clear()  # bound methods: a cycle that would keep the tree alive
    return walk.index
