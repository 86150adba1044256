"""Rewrites carried out: one parse and one pass over the LibCST tree of a file."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import libcst as cst

from tpulint.finding import Fix
from tpulint.plan import Kind, NodePath, Rewrite
from tpulint.rewrite.blocks import Planned, lines_of, rebuilt
from tpulint.rewrite.code import Reader, Statement, UnwritableError, as_statement
from tpulint.rewrite.expressions import chosen, rewritten, without_arguments
from tpulint.rewrite.imports import with_imports
from tpulint.rewrite.locate import Chain, NotLocatedError, locate
from tpulint.rewrite.tree import RefusedError, Tree
from tpulint.source import Source

_STATEMENTS = frozenset(
    {
        Kind.DELETE,
        Kind.INSERT_ABOVE,
        Kind.INSERT_AFTER,
        Kind.INSERT_BEFORE,
        Kind.MOVE_OUT,
        Kind.OUTLINE,
        Kind.REPLACE_RUN,
        Kind.SPLIT,
        Kind.UNWRAP,
    }
)
#: Rewrites of a statement that shares its line.
_BESIDE = frozenset({Kind.INSERT_AFTER, Kind.INSERT_BEFORE, Kind.REPLACE})


#: Why a rewrite is not carried out; LibCST refuses nodes that Python would.
_NOT_POSSIBLE = (NotLocatedError, UnwritableError, cst.CSTValidationError)


class File(Tree):
    """A file as a LibCST tree.

    Args:
        source: the file.
        fixes: those that may be applied; what they leave alone is no part of the tree.

    Raises:
        RefusedError: when the file cannot be parsed, or is not the same when it is written again.
    """

    def __init__(self, source: Source, fixes: Iterable[Fix]) -> None:
        rewrites = [one for fix in fixes for one in fix.rewrites]
        super().__init__(source, [path for one in rewrites for path in (one.path, *one.parts)])
        if self.unfolded(self.module.code) != source.text:
            raise RefusedError("LibCST does not write it as it is")
        self._reader = Reader(self.module)

    def apply(self, fixes: Iterable[Fix]) -> tuple[str, tuple[Fix, ...]]:
        """The text with as many of the fixes as do not exclude each other, and which those are.

        Fixes are taken in their order. A rewrite that an earlier fix made already is made once.
        A fix that cannot be carried out is left out.
        """
        module, applied = self.rewritten(fixes)
        return self.unfolded(module.code), applied

    def rewritten(self, fixes: Iterable[Fix]) -> tuple[cst.Module, tuple[Fix, ...]]:
        """The tree with fixes applied, and which those are; see `apply`."""
        taken: dict[Rewrite, None] = {}
        applied: list[Fix] = []
        steps = _Steps(self.source, self.module, self._reader)
        for fix in fixes:
            fresh = [one for one in fix.rewrites if one not in taken]
            if any(one.excludes(other) for one in fresh for other in taken):
                continue
            try:
                steps.add(fresh)
            except _NOT_POSSIBLE:
                continue
            taken.update(dict.fromkeys(fresh))
            applied.append(fix)
        try:
            module = self.module.visit(steps) if taken else self.module
            imports = dict.fromkeys(one for fix in applied for one in fix.imports)
            module = with_imports(module, imports, self._reader) if imports else module
        except _NOT_POSSIBLE:
            # Some turn out to be impossible only where they are carried out: find out which.
            sound: list[Fix] = []
            for fix in applied if len(applied) > 1 else ():
                sound = [*self.rewritten([*sound, fix])[1]]
            return self.rewritten(sound) if sound else (self.module, ())
        return module, tuple(applied)


class _Steps(cst.CSTTransformer):
    """One pass that visits nothing but the nodes on the way to those that change."""

    def __init__(self, source: Source, module: cst.Module, reader: Reader) -> None:
        super().__init__()
        self._source = source
        self._module = module
        self._reader = reader
        self._on_way: set[int] = set()
        #: By the identity of a node: what becomes of it, with the node of `ast` and the margin.
        self._nodes: dict[int, list[tuple[Rewrite, ast.AST, str]]] = defaultdict(list)
        #: By the identity of a block and that of a line in it.
        self._blocks: dict[int, dict[int, list[Planned]]] = defaultdict(lambda: defaultdict(list))
        self._margins: dict[int, str] = {}
        #: Statements put beside others that share a line, by the identity of the line.
        self._beside: dict[int, list[tuple[int, Rewrite, str]]] = defaultdict(list)
        #: Blocks behind their header on one line whose statements get lines of their own.
        self._split: set[int] = set()
        #: Parts of a list that go, by the identity of the node that has the list.
        self._dropped: dict[int, list[cst.CSTNode]] = defaultdict(list)

    def add(self, rewrites: Sequence[Rewrite]) -> None:
        """Take rewrites on, all or none.

        Raises:
            NotLocatedError: where a node is not found.
            UnwritableError: where code does not parse.
        """
        found = [(one, *locate(self._module, self._source.tree, one.path)) for one in rewrites]
        planned = [(one, chain, node, self._margin(one.path)) for one, chain, node in found]
        for one, chain, node, margin in planned:
            self._try(one, chain, node, margin)
        for one, chain, node, margin in planned:
            self._place(one, chain, node, margin)

    def _margin(self, path: NodePath) -> str:
        node: ast.AST = self._source.tree
        statement: ast.stmt | None = None
        for name, index in path:
            value = getattr(node, name)
            node = value if index < 0 else value[index]
            if isinstance(node, ast.stmt):
                statement = node
        return self._source.margin(statement) if statement is not None else ""

    def _try(self, rewrite: Rewrite, chain: Chain, node: ast.AST, margin: str) -> None:
        """Parse the code of a rewrite, to see whether it can be carried out."""
        if rewrite.kind is Kind.CHOOSE:
            return
        if rewrite.kind in _STATEMENTS or isinstance(node, ast.stmt):
            if rewrite.kind in (Kind.ADD_DECORATOR, Kind.RENAME):
                return
            if rewrite.kind in (Kind.MOVE_OUT, Kind.SPLIT):
                return
            if rewrite.kind is Kind.ADD_ELSE:
                self._reader.statements(rewrite.code[0], f"{margin}{self._module.default_indent}")
                return
            if rewrite.kind is Kind.REPLACE_RUN:
                self._lines_of(rewrite, chain)
            elif rewrite.kind is not Kind.UNWRAP and not _is_in_lines(chain):
                small = rewrite.kind in _BESIDE and isinstance(chain[-1], cst.BaseSmallStatement)
                if not small:
                    raise NotLocatedError("a statement that shares its line")
            if rewrite.kind is Kind.WRAP:
                self._reader.statements(f"{rewrite.code[0]} pass", margin)
                return
            body = self._reader.statements(rewrite.code[0], margin).body if rewrite.code else []
            is_beside = rewrite.kind in _BESIDE and not _is_in_lines(chain)
            if (rewrite.code and not body) or (is_beside and not _is_simple(body)):
                raise UnwritableError(rewrite.code[0] if rewrite.code else "")
        elif rewrite.kind in (Kind.REMOVE_ARGUMENT, Kind.REMOVE_DECORATOR):
            return
        elif rewrite.kind is not Kind.NAME_ARGUMENT:
            rewritten(chain[-1], node, rewrite, margin, self._reader)

    def _place(self, rewrite: Rewrite, chain: Chain, node: ast.AST, margin: str) -> None:
        kind = rewrite.kind
        if kind is Kind.UNWRAP:
            statement = chain[-2]
            assert isinstance(statement, cst.With)
            if len(statement.items) > 1:
                self._dropped[id(statement)].append(chain[-1])
                self._mark(chain)
                return
            chain = chain[:-1]
        is_statement = isinstance(node, ast.stmt) and kind in (
            Kind.CHOOSE,
            Kind.REPLACE,
            Kind.WRAP,
            *_STATEMENTS,
        )
        if kind is Kind.SPLIT and isinstance(chain[-2], cst.SimpleStatementSuite):
            self._split.add(id(chain[-2]))
            self._mark(chain[:-1])
            return
        if (is_statement or kind is Kind.UNWRAP) and (
            kind in (Kind.REPLACE_RUN, Kind.SPLIT) or _is_in_lines(chain)
        ):
            place = -1 if isinstance(chain[-1], cst.BaseCompoundStatement) else -2
            block, line = chain[place - 1], chain[place]
            parts = tuple(self._line(path) for path in rewrite.parts)
            count = self._lines_of(rewrite, chain) if kind is Kind.REPLACE_RUN else 1
            self._blocks[id(block)][id(line)].append(Planned(rewrite, parts, count))
            self._margins[id(block)] = margin
            self._mark(chain[: len(chain) + place])
            return
        if is_statement and kind in (Kind.INSERT_AFTER, Kind.INSERT_BEFORE):
            self._beside[id(chain[-2])].append((id(chain[-1]), rewrite, margin))
            self._mark(chain[:-1])
            return
        if kind is Kind.NAME_ARGUMENT:
            chain = chain[:-1]
        if kind is Kind.REMOVE_ARGUMENT:
            place = -1 if isinstance(chain[-1], cst.Arg) else -2
            self._dropped[id(chain[place - 1])].append(chain[place])
            chain = chain[:place]
        elif kind is Kind.REMOVE_DECORATOR:
            self._dropped[id(chain[-3])].append(chain[-2])
            chain = chain[:-2]
        else:
            self._nodes[id(chain[-1])].append((rewrite, node, margin))
        self._mark(chain)

    def _lines_of(self, rewrite: Rewrite, chain: Chain) -> int:
        """How many lines and compound statements a run of statements has to itself."""
        place = -1 if isinstance(chain[-1], cst.BaseCompoundStatement) else -2
        block: Any = chain[place - 1]
        left = int(rewrite.code[1])
        if isinstance(block, cst.SimpleStatementSuite):
            raise NotLocatedError("statements behind the header of their block")
        lines = list(block.body)
        first = next(i for i, line in enumerate(lines) if line is chain[place])
        if place == -2 and lines[first].body[0] is not chain[-1]:
            raise NotLocatedError("a statement that shares its line")
        for number, line in enumerate(lines[first:], 1):
            left -= len(line.body) if isinstance(line, cst.SimpleStatementLine) else 1
            if left <= 0:
                if left:
                    raise NotLocatedError("a statement that shares its line")
                return number
        raise NotLocatedError("fewer statements than the run has")

    def _line(self, path: NodePath) -> Statement:
        """The statement at a path, with its line."""
        chain, _ = locate(self._module, self._source.tree, path)
        return as_statement(chain[-1] if isinstance(chain[-1], cst.BaseCompoundStatement) else chain[-2])

    def _mark(self, chain: Chain) -> None:
        self._on_way.update(map(id, chain))

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Only nodes on the way to what changes are looked into."""
        return id(node) in self._on_way

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        """Carry out what was planned for a node, after its parts."""
        key = id(original_node)
        if key not in self._on_way:
            return updated_node
        dropped = self._dropped.get(key)
        if dropped:
            updated_node = _without(original_node, updated_node, dropped)
        for rewrite, node, margin in self._nodes.get(key, ()):
            updated_node = self._rewritten(original_node, updated_node, rewrite, node, margin)
        for place, rewrite, margin in self._beside.get(key, ()):
            updated_node = self._with_beside(original_node, updated_node, place, rewrite, margin)
        if key in self._split:
            rows = lines_of(updated_node.body, updated_node.trailing_whitespace)
            updated_node = cst.IndentedBlock(rows)
        lines = self._blocks.get(key)
        if lines:
            updated_node = rebuilt(original_node, updated_node, lines, self._margins[key], self._reader)
        return updated_node

    def _with_beside(self, original: Any, updated: Any, place: int, rewrite: Rewrite, margin: str) -> Any:
        """A line with one more statement before or behind one of its own."""
        [line] = self._reader.statements(rewrite.code[0], margin).body
        if not isinstance(line, cst.SimpleStatementLine):
            raise UnwritableError(rewrite.code[0])
        number = next(i for i, one in enumerate(original.body) if id(one) == place)
        number += rewrite.kind is Kind.INSERT_AFTER
        body = [one.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) for one in updated.body]
        return updated.with_changes(body=[*body[:number], *line.body, *body[number:]])

    def _rewritten(self, original: Any, updated: Any, rewrite: Rewrite, node: ast.AST, margin: str) -> Any:
        kind, code = rewrite.kind, rewrite.code
        if kind is Kind.REPLACE and isinstance(updated, cst.BaseSmallStatement):
            [line] = self._reader.statements(code[0], margin).body
            if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
                raise UnwritableError(code[0])
            return line.body[0].with_changes(semicolon=updated.semicolon)
        if kind is Kind.CHOOSE:
            test = self._reader.expression(code[0], "")
            return chosen(original, updated, test, grouped=len(code) > 1)
        if kind is Kind.ADD_DECORATOR:
            decorator = cst.Decorator(self._reader.expression(code[0], margin))
            if len(code) > 1:
                return updated.with_changes(decorators=[decorator, *updated.decorators])
            if updated.decorators:
                decorator = decorator.with_changes(leading_lines=updated.lines_after_decorators)
            return updated.with_changes(
                decorators=[*updated.decorators, decorator], lines_after_decorators=[]
            )
        if kind is Kind.ADD_ELSE:
            step = self._module.default_indent
            block = self._reader.statements(code[0], f"{margin}{step}")
            return updated.with_changes(orelse=cst.Else(cst.IndentedBlock(block.body)))
        return rewritten(updated, node, rewrite, margin, self._reader)


def _is_simple(body: Sequence[Statement]) -> bool:
    """Whether statements fit on a line with others."""
    return len(body) == 1 and isinstance(body[0], cst.SimpleStatementLine)


def _is_in_lines(chain: Chain) -> bool:
    """Whether the last node of a chain is a statement with a line of its own."""
    if isinstance(chain[-1], cst.BaseCompoundStatement):
        return isinstance(chain[-2], cst.IndentedBlock | cst.Module)
    line = chain[-2]
    return isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1


def _without(original: Any, updated: Any, dropped: Sequence[cst.CSTNode]) -> Any:
    """A call without arguments, a `with` without items, or a function without decorators."""
    if isinstance(original, cst.With):
        kept = [
            new
            for old, new in zip(original.items, updated.items, strict=True)
            if not any(old is one for one in dropped)
        ]
        kept[-1] = kept[-1].with_changes(comma=updated.items[-1].comma)
        return updated.with_changes(items=kept)
    arguments = [one for one in dropped if isinstance(one, cst.Arg)]
    if arguments:
        updated = without_arguments(updated, arguments, original)
    decorators = [one for one in dropped if isinstance(one, cst.Decorator)]
    return _without_decorators(original, updated, decorators) if decorators else updated


def _without_decorators(original: Any, updated: Any, dropped: Sequence[cst.Decorator]) -> Any:
    kept: list[cst.Decorator] = []
    above: list[cst.EmptyLine] = []
    for old, new in zip(original.decorators, updated.decorators, strict=True):
        lines = [*above, *new.leading_lines]
        above = []
        if any(old is one for one in dropped):
            above = lines
        else:
            kept.append(new.with_changes(leading_lines=lines))
    return updated.with_changes(
        decorators=kept, lines_after_decorators=[*above, *updated.lines_after_decorators]
    )
