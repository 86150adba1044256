"""Our qualified names beside those of LibCST, for every name that a corpus of installed code reads.

LibCST knows scopes but not flow, and not what lies outside the file. Where it says less or something else by
design, a rule says what we must say instead; there is no list of places. The rules are in `Theirs.expected`.
"""

from __future__ import annotations

import ast
import random
import sysconfig
from collections.abc import Iterator
from functools import cached_property
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any

import libcst as cst
import libcst.matchers as m
import pytest
from libcst.helpers import get_full_name_for_node
from libcst.metadata import (
    Assignment,
    BaseAssignment,
    BuiltinAssignment,
    ImportAssignment,
    MetadataWrapper,
    PositionProvider,
    QualifiedNameProvider,
    QualifiedNameSource,
    ScopeProvider,
)

from tpulint.engine.run import as_units
from tpulint.model.module import Module
from tpulint.model.names import scopes
from tpulint.source import Source

ROOT = Path(__file__).parents[2]
#: How many files of each place are compared, and how large they may be: LibCST is slow.
SAMPLES = {"tpulint": 6, "rules": 4, "fixtures": 40, "stdlib": 12, "libcst": 2, "click": 2, "torch": 8}
BYTES = range(200, 12_000)
SKIPPED = frozenset({"site-packages", "test", "tests", "lib2to3", "__pycache__"})
PLACES = {
    "tpulint": ROOT / "tpulint",
    "rules": ROOT / "rules",
    "fixtures": ROOT / "fixtures",
    "stdlib": Path(sysconfig.get_path("stdlib")),
}


def corpus(name: str) -> list[Path]:
    """The same files of a place each time, none where it is not installed."""
    folder = PLACES.get(name)
    if folder is None:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            return []
        folder = Path(spec.origin).parent
    found = [
        path
        for path in sorted(folder.rglob("*.py"))
        if path.stat().st_size in BYTES and SKIPPED.isdisjoint(path.relative_to(folder).parts)
    ]
    return random.Random(name).sample(found, min(SAMPLES[name], len(found)))


class Ours:
    """What tpulint says of a file."""

    def __init__(self, path: Path) -> None:
        (unit,) = as_units({str(path): path.read_bytes()}).values()
        self.source = Source.decode(unit.path, unit.data)
        self.module_path = unit.module_path
        self.module = Module(self.source, unit.module_path)

    def reads(self) -> Iterator[tuple[ast.Name | ast.Attribute, scopes.Scope]]:
        """Every plain or dotted name that is read, and the scope it is read in."""
        for node, scope in self._places(self.source.tree, self.module.index.module):
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                head: ast.expr = node
                while isinstance(head, ast.Attribute):
                    head = head.value
                if isinstance(head, ast.Name):
                    yield node, scope

    @cached_property
    def _opened(self) -> dict[int, scopes.Scope]:
        waiting, found = [self.module.index.module], {}
        while waiting:
            scope = waiting.pop()
            found[id(scope.node)] = scope
            waiting += scope.children
        return found

    def _places(self, node: ast.AST, scope: scopes.Scope) -> Iterator[tuple[ast.AST, scopes.Scope]]:
        yield node, scope
        around = list(_around(node))
        inside = self._opened.get(id(node), scope)
        for child in around:
            yield from self._places(child, scope)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.comprehension):
                for part in (child.target, child.iter, *child.ifs):
                    if part not in around:
                        yield from self._places(part, inside)
            elif child not in around:
                yield from self._places(child, inside)

    def span(self, node: ast.expr) -> tuple[int, int, int, int]:
        """Where a node stands, as LibCST counts."""
        span = self.source.span(node)
        start, end = self.source.location(span.start), self.source.location(span.end)
        return (start.row, start.column - 1, end.row, end.column - 1)


def _around(node: ast.AST) -> Iterator[ast.AST]:
    """Those children of a node that opens a scope which are evaluated outside of it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from (*node.decorator_list, node.args, *([node.returns] if node.returns else []))
    elif isinstance(node, ast.Lambda):
        yield node.args
    elif isinstance(node, ast.ClassDef):
        yield from (*node.decorator_list, *node.bases, *node.keywords)
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        yield node.generators[0].iter


class Theirs:
    """What LibCST says of a file, and what that obliges us to say."""

    def __init__(self, text: str, module: str, package: str) -> None:
        self.module = module
        self.package = package
        wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        found: Any = wrapper.resolve_many([QualifiedNameProvider, ScopeProvider, PositionProvider])
        self.names, self.scopes = found[QualifiedNameProvider], found[ScopeProvider]
        #: Names by the rows and columns of their two ends.
        self.at: dict[tuple[int, int, int, int], cst.Name | cst.Attribute] = {}
        #: What is assigned to a target.
        self.values: dict[cst.CSTNode, cst.BaseExpression | None] = {}
        self.stars: list[str] = []
        for node, place in found[PositionProvider].items():
            if isinstance(node, cst.Name | cst.Attribute):
                self.at[place.start.line, place.start.column, place.end.line, place.end.column] = node
            elif isinstance(node, cst.Assign):
                self.values.update(
                    pair for target in node.targets for pair in _pairs(target.target, node.value)
                )
            elif isinstance(node, cst.AnnAssign):
                self.values[node.target] = node.value
            elif isinstance(node, cst.ImportFrom) and isinstance(node.names, cst.ImportStar):
                self.stars.append(resolve_name("." * len(node.relative) + _dotted(node.module), package))

    def expected(
        self, node: cst.BaseExpression, seen: frozenset[cst.CSTNode] = frozenset()
    ) -> set[str | None]:
        """What we may call a plain or dotted name; None for what has no qualified name."""
        head, tail = node, ""
        while isinstance(head, cst.Attribute):
            tail = f".{head.attr.value}{tail}"
            head = head.value
        if not isinstance(head, cst.Name) or head in seen:
            return {None}
        binders = self.scopes[head][head.value]
        if not binders and self.stars and head.value == "torch":
            return {f"torch{tail}"}  # whatever file it comes from
        if not binders:
            return {f"{self.stars[0]}.{head.value}{tail}"} if len(self.stars) == 1 else {None}
        if all(isinstance(binder, BuiltinAssignment) for binder in binders):
            return {f"builtins.{head.value}{tail}"}  # LibCST leaves the tail out
        meanings = [self._meanings(binder, node, tail, seen | {head}) for binder in binders]
        if all(meaning == meanings[0] for meaning in meanings):
            return meanings[0] or {None}
        joined = set().union(*meanings)
        imported = any(isinstance(binder, ImportAssignment) for binder in binders)
        if None in joined or (len(joined) > 1 and not imported):
            return {None}  # several meanings are none, unless they are a guarded import's
        return joined or {None}

    def _meanings(
        self, binder: BaseAssignment, node: cst.BaseExpression, tail: str, seen: frozenset[cst.CSTNode]
    ) -> set[str | None]:
        """What a name may be called for the sake of one of its bindings."""
        if isinstance(binder, ImportAssignment):
            called = self._called(binder, node, QualifiedNameSource.IMPORT)
            return {resolve_name(name, self.package) for name in called}
        assert isinstance(binder, Assignment)
        if isinstance(binder.node, cst.FunctionDef | cst.ClassDef):
            called = self._called(binder, node, QualifiedNameSource.LOCAL)
            return {f"{self.module}.{name.replace('.<locals>', '')}" for name in called}
        value = self.values.get(binder.node)
        if isinstance(value, cst.Name) and value.value in ("None", "False"):
            return set()  # the other half of a guarded import
        if not isinstance(value, cst.Name | cst.Attribute) or m.matches(value, m.Name("True")):
            return {None}
        if self.scopes[value] is not binder.scope:
            return {None}  # assigned under `global`, where the value may mean something else
        return {name and f"{name}{tail}" for name in self.expected(value, seen)}

    def _called(
        self, binder: BaseAssignment, node: cst.BaseExpression, source: QualifiedNameSource
    ) -> Iterator[str]:
        names = self.names[node]
        names = names() if callable(names) else names
        chosen = [name for name in names if name.source is source]
        # An annotation may mean what is bound further down, which the provider leaves out.
        for name in chosen or binder.get_qualified_names_for(_dotted(node)):
            yield name.name


def _pairs(
    target: cst.BaseExpression, value: cst.BaseExpression
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """What is assigned to a target, or one by one to those of a tuple."""
    if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple):
        if len(target.elements) == len(value.elements) and not any(
            isinstance(one, cst.StarredElement) for one in (*target.elements, *value.elements)
        ):
            yield from zip(
                (one.value for one in target.elements), (one.value for one in value.elements), strict=True
            )
    else:
        yield target, value


def _dotted(node: cst.CSTNode | None) -> str:
    return (get_full_name_for_node(node) if node is not None else None) or ""


def differences(path: Path) -> tuple[int, list[str]]:
    """How many names of a file were compared, and where we do not say what we must."""
    ours = Ours(path)
    name = ours.module_path.name
    theirs = Theirs(ours.source.text, name, name if ours.module_path.package else name.rpartition(".")[0])
    compared, found = 0, []
    for node, scope in ours.reads():
        other = theirs.at.get(ours.span(node))
        if other is None:
            continue  # within an f-string, whose parts the parser misplaces before Python 3.12
        compared += 1
        said, expected = ours.module.names.qualified(node, scope), theirs.expected(other)
        if said not in expected:
            text = ast.unparse(node)
            found.append(
                f"{path}:{node.lineno}: {text} is {said}, but {sorted(map(str, expected))} for LibCST"
            )
    return compared, found


@pytest.mark.parametrize("place", SAMPLES)
def test_qualified_names_agree_with_libcst(place: str) -> None:
    files = corpus(place)
    if not files:
        pytest.skip(f"{place} is not installed")
    results = [differences(path) for path in files]
    assert [] == [line for _, found in results for line in found]
    assert sum(compared for compared, _ in results) > 100
