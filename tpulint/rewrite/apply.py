"""Rewrites carried out: one parse and one pass over the LibCST tree of a file."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import libcst as cst

from tpulint.finding import Fix
from tpulint.plan import INSERTS, Kind, NodePath, Rewrite
from tpulint.rewrite.blocks import Planned, rebuilt
from tpulint.rewrite.code import Reader, Statement, Statements, UnwritableError, as_statement, fits_on_line
from tpulint.rewrite.expressions import chosen, rewritten, without_arguments, without_items
from tpulint.rewrite.imports import with_imports
from tpulint.rewrite.locate import Chain, NotLocatedError, locate
from tpulint.rewrite.shared_line import lines_of, on_one_line, on_own_lines
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
_WITHOUT_CODE = frozenset({Kind.NAME_ARGUMENT, Kind.REMOVE_ARGUMENT, Kind.REMOVE_DECORATOR})
#: Rewrites of a statement that shares its line.
_BESIDE = frozenset({Kind.DELETE, Kind.INSERT_AFTER, Kind.INSERT_BEFORE, Kind.REPLACE})


#: Why a rewrite is not carried out; LibCST refuses nodes that Python would.
_NOT_POSSIBLE = (NotLocatedError, UnwritableError, cst.CSTValidationError)


#: A rewrite of a statement on the line of a header: the identity of the statement, and the line's margin.
_Beside: TypeAlias = tuple[int, Rewrite, str]


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
        paths = [path for one in rewrites for path in one.changed]
        super().__init__(source, paths, [one.path for one in rewrites])
        if self.unfolded(self.module.code) != source.text:
            raise RefusedError(
                "LibCST would not give its text back exactly, for example because of a form feed"
            )
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
        given = list(fixes)
        try:
            return self._attempt(given)
        except _NOT_POSSIBLE:
            pass
        # Some turn out to be impossible only where they are carried out: find out which.
        made: tuple[cst.Module, tuple[Fix, ...]] = (self.module, ())
        for fix in given:
            try:
                made = self._attempt([*made[1], fix])
            except _NOT_POSSIBLE:
                continue
        return made

    def _attempt(self, fixes: Iterable[Fix]) -> tuple[cst.Module, tuple[Fix, ...]]:
        taken: dict[Rewrite, None] = {}
        applied: list[Fix] = []
        rewriter = _Rewriter(self.source, self.module, self._reader)
        for fix in fixes:
            fresh = [one for one in fix.rewrites if one not in taken]
            if any(one.conflicts_with(other) for one in fresh for other in taken):
                continue
            try:
                rewriter.add(fresh)
            except _NOT_POSSIBLE:
                continue
            taken.update(dict.fromkeys(fresh))
            applied.append(fix)
        module = self.module.visit(rewriter) if taken else self.module
        imports = dict.fromkeys(one for fix in applied for one in fix.imports)
        module = with_imports(module, imports, self._reader) if imports else module
        return module, tuple(applied)


class _Rewriter(cst.CSTTransformer):
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
        #: Rewrites of statements on the line of a header, by the identity of their block.
        self._beside: dict[int, list[_Beside]] = defaultdict(list)
        #: Blocks on the line of their header whose statements get lines of their own.
        self._split: set[int] = set()
        #: Parts of a list that go, by the identity of the node that has the list.
        self._dropped: dict[int, list[cst.CSTNode]] = defaultdict(list)

    def add(self, rewrites: Sequence[Rewrite]) -> None:
        """Take rewrites on, all or none.

        Raises:
            NotLocatedError: where a node is not found.
            UnwritableError: where code does not fit.
            BrokenCodeError: where code does not parse.
        """
        found = [(one, *locate(self._module, self._source.tree, one.path)) for one in rewrites]
        planned = [(one, chain, node, self._margin(one.path)) for one, chain, node in found]
        for one, chain, node, margin in planned:
            self._check(one, chain, node, margin)
        for one, chain, node, margin in planned:
            self._register(one, chain, node, margin)

    def _margin(self, path: NodePath) -> str:
        node: ast.AST = self._source.tree
        statement: ast.stmt | None = None
        for name, index in path:
            value = getattr(node, name)
            node = value if index < 0 else value[index]
            if isinstance(node, ast.stmt):
                statement = node
        return self._source.margin(statement) if statement is not None else ""

    def _check(self, rewrite: Rewrite, chain: Chain, node: ast.AST, margin: str) -> None:
        """Parse the code of a rewrite, to see whether it can be carried out."""
        kind, code = rewrite.kind, rewrite.code
        if kind is Kind.UNWRAP or kind in _WITHOUT_CODE:
            return
        if kind is Kind.ADD_DECORATOR:
            self._reader.expression(code[0], margin)
        elif kind is Kind.ADD_ELSE:
            self._reader.statements(code[0], f"{margin}{self._module.default_indent}")
        elif kind in _STATEMENTS or (isinstance(node, ast.stmt) and kind is not Kind.RENAME):
            if not isinstance(node, ast.stmt):
                raise NotLocatedError(f"{kind} of {type(node).__name__}")
            self._check_statement(rewrite, chain, margin)
        elif kind is Kind.KEEP_IF:
            self._reader.expression(code[0], "")
        else:
            rewritten(chain[-1], node, rewrite, margin, self._reader)

    def _check_statement(self, rewrite: Rewrite, chain: Chain, margin: str) -> None:
        kind, holder, statement = rewrite.kind, chain[-2], chain[-1]
        shares_line = isinstance(holder, cst.SimpleStatementLine) and not _is_in_lines(chain)
        if kind is Kind.MOVE_OUT:
            block = statement.body if isinstance(statement, cst.With) else None
            if not isinstance(block, cst.IndentedBlock) or len(block.body) <= int(rewrite.code[0]):
                raise NotLocatedError("fewer statements than are to be moved")
            return
        if kind is Kind.SPLIT:
            if not isinstance(holder, cst.SimpleStatementSuite | cst.SimpleStatementLine):
                raise NotLocatedError("a statement that has a line of its own")
            return
        if kind is Kind.REPLACE_RUN:
            self._lines_of(rewrite, chain)
        elif not _is_in_lines(chain) and not (
            isinstance(statement, cst.BaseSmallStatement)
            and (kind in _BESIDE or (kind in INSERTS and shares_line))
        ):
            raise NotLocatedError("a statement that shares its line")
        if kind is Kind.KEEP_IF:
            self._reader.expression(rewrite.code[0], "")
            return
        if not rewrite.code:
            return
        code = f"{rewrite.code[0]} pass" if kind is Kind.WRAP else rewrite.code[0]
        if not self._reader.statements(code, margin).body:
            raise UnwritableError(rewrite.code[0])

    def _register(self, rewrite: Rewrite, chain: Chain, node: ast.AST, margin: str) -> None:
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
            Kind.KEEP_IF,
            Kind.REPLACE,
            Kind.WRAP,
            *_STATEMENTS,
        )
        if kind is Kind.SPLIT and isinstance(chain[-2], cst.SimpleStatementSuite):
            self._split.add(id(chain[-2]))
            self._mark(chain[:-1])
            return
        of_line = (Kind.INSERT_ABOVE, Kind.OUTLINE, Kind.REPLACE_RUN, Kind.SPLIT)
        if (is_statement or kind is Kind.UNWRAP) and (kind in of_line or _is_in_lines(chain)):
            place = -1 if isinstance(chain[-1], cst.BaseCompoundStatement) else -2
            block, line = chain[place - 1], chain[place]
            parts = tuple(self._line(path) for path in rewrite.parts)
            count = self._lines_of(rewrite, chain) if kind is Kind.REPLACE_RUN else 1
            self._blocks[id(block)][id(line)].append(Planned(rewrite, parts, count))
            self._margins[id(block)] = margin
            self._mark(chain[: len(chain) + place])
            return
        if is_statement and not (rewrite.code and self._is_one_for_one(rewrite, margin)):
            holder: Any = chain[-2]
            if isinstance(holder, cst.SimpleStatementLine):
                number = next(i for i, one in enumerate(holder.body) if one is chain[-1])
                self._blocks[id(chain[-3])][id(holder)].append(Planned(rewrite, number=number))
                self._margins[id(chain[-3])] = margin
                self._mark(chain[:-2])
                return
            self._beside[id(holder)].append((id(chain[-1]), rewrite, margin))
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

    def _is_one_for_one(self, rewrite: Rewrite, margin: str) -> bool:
        """Whether one simple statement replaces another."""
        code = self._reader.statements(rewrite.code[0], margin)
        if rewrite.kind is not Kind.REPLACE or not fits_on_line(code):
            return False
        [line] = code.body
        return isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1

    def _lines_of(self, rewrite: Rewrite, chain: Chain) -> int:
        """How many lines and compound statements a run of statements has to itself."""
        place = -1 if isinstance(chain[-1], cst.BaseCompoundStatement) else -2
        block: Any = chain[place - 1]
        left = int(rewrite.code[1])
        if not isinstance(block, cst.Module | cst.IndentedBlock):
            raise NotLocatedError("a statement without a line of its own")
        lines: list[Any] = list(block.body)
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
        # Several subscripts share their node with what they are of: the inner rewrite comes first.
        for rewrite, node, margin in sorted(self._nodes.get(key, ()), key=lambda one: -len(one[0].path)):
            updated_node = self._rewritten(original_node, updated_node, rewrite, node, margin)
        if key in self._beside:
            updated_node = self._with_beside(original_node, updated_node, self._beside[key])
        if key in self._split:
            rows = lines_of(updated_node.body, updated_node.trailing_whitespace)
            updated_node = cst.IndentedBlock(rows)
        lines = self._blocks.get(key)
        if lines:
            updated_node = rebuilt(original_node, updated_node, lines, self._margins[key], self._reader)
        return updated_node

    def _with_beside(self, original: Any, updated: Any, planned: Sequence[_Beside]) -> Any:
        """A block on the line of its header after rewrites; it gets its own lines where they do not fit."""
        numbers = {id(one): number for number, one in enumerate(original.body)}
        changes: dict[int, list[tuple[Kind, Statements]]] = defaultdict(list)
        for key, rewrite, margin in planned:
            code = self._reader.statements(rewrite.code[0], margin) if rewrite.code else Statements([], [])
            changes[numbers[key]].append((rewrite.kind, code))
        small = on_one_line(updated.body, changes)
        if small is None:
            body, rest = on_own_lines(updated.body, changes, updated.trailing_whitespace)
            return cst.IndentedBlock(body, footer=rest)
        return updated.with_changes(body=small or [cst.Pass()])

    def _rewritten(self, original: Any, updated: Any, rewrite: Rewrite, node: ast.AST, margin: str) -> Any:
        kind, code = rewrite.kind, rewrite.code
        if kind is Kind.REPLACE and isinstance(updated, cst.BaseSmallStatement):
            [line] = self._reader.statements(code[0], margin).body
            if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
                raise UnwritableError(code[0])
            return line.body[0].with_changes(semicolon=updated.semicolon)
        if kind is Kind.KEEP_IF:
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


def _is_in_lines(chain: Chain) -> bool:
    """Whether the last node of a chain is a statement with a line of its own."""
    if isinstance(chain[-1], cst.BaseCompoundStatement):
        return isinstance(chain[-2], cst.IndentedBlock | cst.Module)
    line = chain[-2]
    return isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1


def _without(original: Any, updated: Any, dropped: Sequence[cst.CSTNode]) -> Any:
    """A call without arguments, a `with` without items, or a function without decorators."""
    if isinstance(original, cst.With):
        return without_items(updated, dropped, original)
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
