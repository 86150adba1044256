"""What the model believes of one line, told to people who doubt a finding."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tpulint.finding import Location
from tpulint.model.names.scopes import FunctionNode, Scope, parameters
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.project.trace_path import TracePath
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.model.values.kinds import UNKNOWN, Instance, Kind, Several, Tensor
from tpulint.model.values.typed_file import TypedFile
from tpulint.source import first_row

#: Expressions that are worth a word.
_TOLD = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Compare, ast.BinOp, ast.BoolOp)


@dataclass(frozen=True, slots=True)
class Belief:
    """An expression and what is believed of it.

    `name` is what a plain or dotted name refers to, or the callee of a call. `made_at` gives the rows of the
    calls that made a tensor on the host. `modules` are the classes in `kind` that are `torch.nn.Module`s.
    """

    location: Location
    text: str
    kind: Kind
    name: str | None
    made_at: tuple[int, ...]
    modules: frozenset[str]


@dataclass(frozen=True, slots=True)
class LineBelief:
    """A line: the function that it lies in (None for none), how tracing gets there, and its expressions."""

    function: str | None
    chain: TracePath | None
    expressions: tuple[Belief, ...]


def line_belief(module: TypedFile, row: int) -> LineBelief:
    """What is believed of a row, counted from 1."""
    around = [scope for scope in module.index.functions if _covers(scope.node, row)]
    function = max(around, key=lambda scope: scope.qualname.count("."), default=None)
    told: dict[tuple[str, Kind, str | None], Belief] = {}
    for belief in sorted(_beliefs(module, row), key=lambda belief: (belief.location, -len(belief.text))):
        kind = replace(belief.kind, root="") if isinstance(belief.kind, Tensor) else belief.kind
        told.setdefault((belief.text, kind, belief.name), belief)
    return LineBelief(
        function.qualname if function is not None else None,
        module.trace_path(function) if function is not None else None,
        tuple(told.values()),
    )


def _beliefs(module: TypedFile, row: int) -> Iterator[Belief]:
    for scope in module.index.functions:
        assert isinstance(scope.node, FunctionNode)
        for argument in parameters(scope.node):
            flow = module.flow(scope) if argument.lineno == row else None
            if flow is not None:
                kind = flow.initial.get(argument.arg, UNKNOWN)
                yield _belief(module, module.source.span(argument).start, argument.arg, kind, None)
    for node in _starting(module.source.tree, row):
        belief = belief_of(module, node, module.scope_of(node))
        stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        if belief.kind is not UNKNOWN or not (stored or belief.name == belief.text):
            yield belief


def belief_of(module: TypedFile, node: ast.expr, scope: Scope) -> Belief:
    """What is believed of one expression."""
    span = module.source.span(node)
    text = " ".join(module.source.text[span.start : span.end].split())
    name = module.names.qualified(node.func if isinstance(node, ast.Call) else node, scope)
    name = module.project.resolve(name) if name is not None else None
    return _belief(module, span.start, text, module.kind(node, scope), name)


def _belief(module: ProjectFile, start: int, text: str, kind: Kind, name: str | None) -> Belief:
    locate = module.source.location
    origins = kind.origins if isinstance(kind, Tensor) else frozenset()
    made_at = tuple(sorted({locate(offset).row for offset in origins}))
    modules = frozenset(cls for cls in _classes(kind) if module.project.is_module_class(cls))
    return Belief(locate(start), text, kind, name, made_at, modules)


def subjects(module: ParsedFile, node: ast.AST, scope: Scope) -> list[ast.expr]:
    """The parts of a node whose kinds decide what a rule thinks of it."""
    match node:
        case ast.If() | ast.While() | ast.IfExp() | ast.Assert():
            return [node.test]
        case ast.For():
            return [node.iter]
        case ast.Subscript():
            return [node.value, node.slice]
        case ast.BoolOp():
            return node.values
        case ast.Compare():
            return [node.left, *node.comparators]
        case ast.UnaryOp():
            return [node.operand]
        case ast.Call(func=func):
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            if isinstance(func, ast.Attribute) and module.names.qualified(func, scope) is None:
                return [func.value, *arguments]
            return arguments
        case _:
            return []


def _end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return (node.end_lineno, node.end_col_offset)


def _covers(node: ast.AST, row: int) -> bool:
    return isinstance(node, FunctionNode) and node.lineno <= row <= (node.end_lineno or 0)


def _starting(tree: ast.AST, row: int) -> Iterator[ast.expr]:
    """The expressions worth a word that start on a row; of a dotted name and of what is called, the whole."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt | ast.expr) and not first_row(node) <= row <= _end(node)[0]:
            continue
        if isinstance(node, _TOLD) and node.lineno == row:
            yield node
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            callee = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            waiting += [*callee, *node.args, *node.keywords]
        else:
            waiting += ast.iter_child_nodes(node)


def _classes(kind: Kind) -> Iterator[str]:
    if isinstance(kind, Instance):
        yield kind.cls
    elif isinstance(kind, Several):
        for item in (kind.element, *(kind.items or ())):
            yield from _classes(item)
