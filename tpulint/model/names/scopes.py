"""Scopes with their bindings."""

from __future__ import annotations

import ast
from enum import StrEnum

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class ScopeKind(StrEnum):
    """The type of a scope: `MODULE`, `CLASS`, `FUNCTION` or `COMPREHENSION`."""

    MODULE = "module"
    CLASS = "class"
    FUNCTION = "function"
    COMPREHENSION = "comprehension"


class Binding:
    """One way in which a name gets its value.

    `target` is the qualified name that an import binds, `value` the expression that an assignment
    binds, `node` the definition of a function or class; at most one of them is set.
    """

    __slots__ = ("node", "target", "value")

    def __init__(
        self,
        target: str | None = None,
        value: ast.expr | None = None,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | None = None,
    ) -> None:
        self.target = target
        self.value = value
        self.node = node


class Scope:
    """A module, class, function or comprehension, and the names bound in it.

    `kind` is its type, `node` its node of `ast`, `name` its name, `qualname` its qualified name within the
    file, and `parent` the scope around it, None for a module. `bindings` are its bindings by name.
    """

    __slots__ = (
        "bindings",
        "children",
        "declared",
        "evidence",
        "kind",
        "loads",
        "loops",
        "name",
        "node",
        "parent",
        "passed",
        "qualname",
        "returned",
        "stars",
        "unpacked",
        "yields",
    )

    def __init__(self, kind: ScopeKind, node: ast.AST, name: str, parent: Scope | None) -> None:
        self.kind = kind
        self.node = node
        self.name = name
        self.parent = parent
        inner = parent is not None and parent.kind is not ScopeKind.MODULE
        self.qualname: str = f"{parent.qualname}.{name}" if parent is not None and inner else name
        self.bindings: dict[str, list[Binding]] = {}
        #: Names declared `global` or `nonlocal`, with the scope that they belong to.
        self.declared: dict[str, Scope] = {}
        self.children: list[Scope] = []
        #: Attributes taken of plain names, the ground for calling a parameter a tensor.
        self.evidence: dict[str, set[str]] = {}
        #: Calls that take a plain name as an argument, by that name.
        self.passed: dict[str, list[ast.Call]] = {}
        #: Plain names that are read, with the first place; not those of which attributes are taken.
        self.loads: dict[str, ast.Name] = {}
        #: Modules imported with a star.
        self.stars: list[str] = []
        #: Names bound by `for` loops, with what is looped over.
        self.loops: dict[str, ast.expr] = {}
        #: Names of which they bind several at once, with what each is one of.
        self.unpacked: dict[str, ast.expr] = {}
        #: What the `return` statements of a function give.
        self.returned: list[ast.expr | None] = []
        #: Whether a function is a generator.
        self.yields = False
        if parent is not None:
            parent.children.append(self)

    @property
    def function(self) -> Scope | None:
        """The innermost function that this scope is or lies in."""
        scope: Scope | None = self
        while scope is not None and scope.kind is not ScopeKind.FUNCTION:
            if scope.kind is not ScopeKind.COMPREHENSION:
                return None
            scope = scope.parent
        return scope

    @property
    def owner(self) -> Scope | None:
        """The class whose body defines this function, if one does."""
        return self.parent if self.parent is not None and self.parent.kind is ScopeKind.CLASS else None

    def bind(self, name: str, binding: Binding) -> None:
        """Add one binding of a name."""
        scope: Scope = self
        while scope.kind is ScopeKind.COMPREHENSION and scope.parent is not None:
            scope = scope.parent  # a walrus in a comprehension binds outside it
        home = scope.declared.get(name)
        if home is not None and binding.value is not None:
            binding = Binding()  # its value is to be read in another scope than it is bound in
        (home or scope).bindings.setdefault(name, []).append(binding)


def parameters(node: FunctionNode) -> list[ast.arg]:
    """All parameters of a function, in the order of its signature."""
    arguments = node.args
    found = [*arguments.posonlyargs, *arguments.args]
    if arguments.vararg is not None:
        found.append(arguments.vararg)
    found.extend(arguments.kwonlyargs)
    if arguments.kwarg is not None:
        found.append(arguments.kwarg)
    return found
