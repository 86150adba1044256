"""A parsed file: its text, syntax tree, names and the nodes around each node.

It knows neither the project nor inferred types.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

from tpulint.model.names.index import index
from tpulint.model.names.qualified import Names
from tpulint.model.names.references import attributes_by_class
from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.parents import Parents
from tpulint.plan import NodePath, node_at
from tpulint.source import Source

#: How many folders of a path the name of a package has, from which relative imports start.
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class ModulePath:
    """The name under which a file is imported.

    `name` is unique in the project. `package` says that it is a package's `__init__.py`. `renamed`
    gives the unique names of those modules of its own folder that share their plain name with one
    elsewhere, as two folders of scripts do that both have a `utils.py`.
    """

    name: str
    package: bool = False
    renamed: tuple[tuple[str, str], ...] = ()


class ParsedFile:
    """One parsed file.

    Args:
        source: the file.
        path: the name under which it is imported.

    Raises:
        SyntaxError, SourceError: when the text does not parse.
    """

    def __init__(self, source: Source, path: ModulePath) -> None:
        self.source = source
        self.name = name = path.name
        package = name if path.package else name.rpartition(".")[0] or _package_by_folder(source.path)
        self.index = index(source.tree, package, dict(path.renamed))
        self.names = Names(self.index, name)
        #: Answers about the whole file, by the question.
        self.answers: dict[object, Any] = {}

    def release(self) -> None:
        """Break the cycles between the parts of the file, so that its memory is freed with its last user."""
        self.answers.clear()
        self.__dict__.pop("_parents", None)
        waiting = [self.index.module]
        while waiting:
            scope = waiting.pop()
            waiting += scope.children
            scope.children.clear()

    # definitions and uses

    @cached_property
    def functions(self) -> dict[str, Scope]:
        """The functions of this file, by their qualified names."""
        return {f"{self.name}.{scope.qualname}": scope for scope in self.index.functions}

    @cached_property
    def assignments(self) -> dict[tuple[str, str], list[tuple[ast.expr, Scope]]]:
        """What is assigned to the attributes of this file's classes, by class and attribute."""
        found: dict[tuple[str, str], list[tuple[ast.expr, Scope]]] = {}
        for cls, assigned in attributes_by_class(self.index).items():
            for attribute, value, place in assigned:
                found.setdefault((f"{self.name}.{cls}", attribute), []).append((value, place))
        return found

    @cached_property
    def assigned(self) -> dict[str, list[ast.expr]]:
        """What is assigned to anything but a plain name, by how it is written."""
        found: dict[str, list[ast.expr]] = {}
        for target, value in self.index.stored:
            found.setdefault(ast.unparse(target), []).append(value)
        return found

    @cached_property
    def loads(self) -> dict[str, list[ast.Name]]:
        """Every place of the file that reads a plain name, by name."""
        found: dict[str, list[ast.Name]] = {}
        for node in ast.walk(self.source.tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found.setdefault(node.id, []).append(node)
        return found

    # nodes around a node

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node around a node; None for the file's whole tree."""
        return self._parents.of(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, innermost first."""
        outer = self.parent(node)
        while outer is not None:
            yield outer
            outer = self.parent(outer)

    def nodes_on(self, path: NodePath) -> Iterator[ast.AST]:
        """The nodes from below the file's tree down to the one at a path."""
        node: ast.AST = self.source.tree
        for step in path:
            node = node_at(node, (step,))
            yield node

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that a node stands in, or is."""
        if isinstance(node, ast.stmt):
            return node
        return next(outer for outer in self.ancestors(node) if isinstance(outer, ast.stmt))

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements that a statement is one of."""
        outer = self.parent(statement)
        for value in vars(outer).values() if outer is not None else ():
            if isinstance(value, list) and any(item is statement for item in value):
                return value
        return [statement]

    def before(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements of its block that come before a statement."""
        block = self.block(statement)
        return block[: next(number for number, item in enumerate(block) if item is statement)]

    def scope_of(self, node: ast.AST) -> Scope:
        """The scope in which the names of a node are looked up."""
        inner, part = node, None
        for outer in self.ancestors(node):
            scope = self._scopes.get(id(outer))
            if scope is not None and _is_inside(outer, inner, part):
                return scope
            inner, part = outer, inner
        return self.index.module

    @cached_property
    def _scopes(self) -> dict[int, Scope]:
        """The scopes of functions, classes and comprehensions, by the identity of these."""
        found: dict[int, Scope] = {}
        waiting = [*self.index.module.children]
        while waiting:
            scope = waiting.pop()
            found[id(scope.node)] = scope
            waiting += scope.children
        return found

    @cached_property
    def _parents(self) -> Parents:
        return Parents(self.source.tree)


def _is_inside(outer: ast.AST, inner: ast.AST, part: ast.AST | None) -> bool:
    """Whether a part of a node that opens a scope is evaluated in that scope.

    Args:
        outer: the node that opens the scope.
        inner: the part of it.
        part: the part of that part that the question is about, if any.
    """
    match outer:
        case ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body) | ast.ClassDef(body=body):
            return any(statement is inner for statement in body)
        case ast.Lambda(body=body):
            return body is inner
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            return part is None or part is not outer.generators[0].iter
    return False


def _package_by_folder(path: str) -> str:
    """The dotted name of the package that the folders around a file are, as far as names go."""
    folders = list(takewhile(str.isidentifier, Path(path).parts[-2 : -_DEPTH - 2 : -1]))
    return ".".join(reversed(folders))
