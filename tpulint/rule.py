"""What a rule is, and all that it may ask: the whole API that rules are written against.

A rule registers for the node types of `ast` that could concern it, asks its context what they mean,
and opens LibCST only to rewrite the expression that it reports.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from tpulint.finding import Applicability, Edit, Finding, Fix, Related, Span
from tpulint.model.kinds import Instance, Kind
from tpulint.model.module import Module
from tpulint.model.project import TracePath
from tpulint.model.scopes import Scope, ScopeKind

if TYPE_CHECKING:
    import libcst as cst

DOCS = "https://github.com/tpulint/tpulint/blob/main/docs/rules"

Check = Callable[..., Iterator[Finding]]
_C = TypeVar("_C", bound=Check)


@dataclass(frozen=True, slots=True)
class Handler:
    """One function of a rule and the nodes that it wants.

    `named` restricts calls to those whose callee ends in one of these identifiers; `traced`
    restricts to code that tracing reaches.
    """

    node: type[ast.AST]
    named: frozenset[str]
    traced: bool
    check: Check


class Rule:
    """A rule: its code, what it is about, and its handlers.

    Args:
        code: `TPU` and three digits; permanent.
        summary: one line, lower case, what the code has.
        module: the `__name__` of the module that holds the rule; its file name is the rule's name,
            its package's name the family, its docstring the rule's page.
        fix: the best applicability that its fixes have, None where it never has one.
    """

    def __init__(self, code: str, summary: str, *, module: str, fix: Applicability | None) -> None:
        self.code = code
        self.summary = summary
        self.module = module
        self.fixable = fix
        self.folder = module.rpartition(".")[2]
        self.name = self.folder.replace("_", "-")
        self.family = module.split(".")[-2]
        self.url = f"{DOCS}/{self.name}.md"
        self.handlers: list[Handler] = []

    @property
    def doc(self) -> str:
        """The rule's page, in Markdown."""
        return sys.modules[self.module].__doc__ or ""

    def on(self, node: type[ast.AST], *, named: Iterable[str] = (), traced: bool = False) -> Callable[[_C], _C]:
        """Register a generator of findings for a node type; `ast.Module` is asked once per file."""

        def register(check: _C) -> _C:
            self.handlers.append(Handler(node, frozenset(named), traced, check))
            return check

        return register


class Context:
    """One file as a rule sees it, at one place."""

    __slots__ = ("__dict__", "module", "rule", "scope")

    def __init__(self, rule: Rule, module: Module, scope: Scope) -> None:
        self.rule = rule
        self.module = module
        self.scope = scope

    # meaning

    def qualified_name(self, node: ast.AST) -> str | None:
        """What a plain or dotted name refers to, such as `torch.cuda.synchronize`."""
        name = self.module.names.qualified(node, self.scope)
        return self.module.project.resolve(name) if name is not None else None

    def kind(self, node: ast.expr) -> Kind:
        """The kind of value that an expression has."""
        return self.module.kind(node, self.scope)

    def is_module(self, kind: Kind) -> bool:
        """Whether a kind is an instance of a `torch.nn.Module`."""
        return isinstance(kind, Instance) and self.module.project.is_module_class(kind.cls)

    @property
    def trace_path(self) -> TracePath | None:
        """The chain by which tracing reaches this place; None for host code."""
        return self.module.trace_path(self.scope)

    @property
    def mixed(self) -> set[int]:
        """Offsets of the calls in this function that make a host tensor which meets one on the device."""
        flow = self.module.flow(self.scope.function or self.scope)
        return flow.mixed if flow is not None else set()

    @cached_property
    def tree(self) -> ast.Module:
        """The file's syntax tree."""
        return self.module.source.tree

    # places

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node around a node."""
        return self.module.parent(node, self.scope)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, innermost first."""
        current = self.parent(node)
        while current is not None:
            yield current
            current = self.parent(current)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that a node stands in."""
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

    @property
    def function_body(self) -> list[ast.stmt]:
        """The statements of the enclosing function, or of the module."""
        scope: Scope | None = self.scope
        while scope is not None:
            body = getattr(scope.node, "body", None)
            if scope.kind in (ScopeKind.FUNCTION, ScopeKind.MODULE) and isinstance(body, list):
                return body
            scope = scope.parent
        return self.tree.body

    def span(self, node: ast.expr | ast.stmt) -> Span:
        """The characters of a node."""
        return self.module.source.span(node)

    def text(self, node: ast.expr | ast.stmt) -> str:
        """The source of a node."""
        span = self.span(node)
        return self.module.source.text[span.start : span.end]

    def is_bound(self, name: str) -> bool:
        """Whether a name means anything at this place."""
        return self.module.names.lookup(name, self.scope) is not None

    # faithful source

    def libcst(self, node: ast.expr) -> cst.BaseExpression:
        """An expression as LibCST reads it, with its comments and layout."""
        import libcst as cst

        # In parentheses, so that an expression over several lines parses on its own.
        outer = cst.parse_expression(f"({self.text(node)}\n)")
        return outer.with_changes(lpar=outer.lpar[1:], rpar=outer.rpar[:-1])

    def replace_libcst(self, node: ast.expr, new: cst.BaseExpression) -> Edit:
        """The edit that puts a LibCST expression in the place of a node."""
        import libcst as cst

        code = cst.Module(body=[], default_newline=self.module.source.newline).code_for_node(new)
        return self.replace(node, code)

    # findings and fixes

    def finding(
        self, node: ast.expr | ast.stmt, message: str, fix: Fix | None = None, related: tuple[Related, ...] = ()
    ) -> Finding:
        """A finding at a node; one in traced code carries the chain from its root."""
        span = self.span(node)
        return self.finding_at(span, message, fix, related or self._chain())

    def finding_at(
        self, span: Span, message: str, fix: Fix | None = None, related: tuple[Related, ...] = ()
    ) -> Finding:
        """A finding at a span."""
        source = self.module.source
        start, end = source.location(span.start), source.location(span.end)
        return Finding(
            source.path, start, end, self.rule.code, self.rule.name, message, span, source.line(start.row), fix, related,
            self.rule.url,
        )  # fmt: skip

    def _chain(self) -> tuple[Related, ...]:
        path = self.trace_path
        if path is None:
            return ()
        from tpulint.finding import Location

        return tuple(Related(step.path, Location(step.row, step.column), step.label) for step in path.steps)

    def fix(self, title: str, *edits: Edit, applicability: Applicability = Applicability.SAFE) -> Fix:
        """A fix; one that claims to be safe but would eat a comment becomes unsafe."""
        source = self.module.source
        if applicability is Applicability.SAFE and any(source.comments_within(edit.span) for edit in edits):
            kept = "".join(edit.content for edit in edits)
            if not all(comment in kept for edit in edits for comment in _comments(source.text, edit.span)):
                applicability = Applicability.UNSAFE
        return Fix(title, tuple(sorted(edits)), applicability)

    def edit(self, span: Span, content: str) -> Edit:
        """Replace a span."""
        source = self.module.source
        return Edit(span, content, source.location(span.start), source.location(span.end))

    def replace(self, node: ast.expr | ast.stmt, content: str) -> Edit:
        """Replace a node."""
        return self.edit(self.span(node), content)

    def delete(self, statement: ast.stmt) -> Edit:
        """Delete a statement with its line, or put `pass` where its block would be left empty.

        A comment behind it on the same line goes with it, which makes the fix unsafe.
        """
        source, span = self.module.source, self.span(statement)
        outer = self.parent(statement)
        blocks = [value for value in vars(outer).values() if isinstance(value, list)] if outer is not None else []
        if any(statement in block and len(block) == 1 for block in blocks):
            return self.edit(span, "pass")
        text = source.text
        line_start = source.line_starts[source.location(span.start).row - 1]
        end_row = source.location(span.end).row
        line_end = source.line_starts[end_row] if end_row < len(source.line_starts) else len(text)
        if not text[line_start : span.start].strip() and not text[span.end : line_end].split("#")[0].strip():
            return self.edit(Span(line_start, line_end), "")
        return self.edit(span, "pass")

    def statements_before(self, statement: ast.stmt, *lines: str) -> Edit:
        """Insert lines before a statement, at its indentation."""
        return self._insert(self.span(statement).start, lines)

    def _insert(self, offset: int, lines: tuple[str, ...]) -> Edit:
        source = self.module.source
        start = source.line_starts[source.location(offset).row - 1]
        indent = source.text[start:offset]
        content = "".join(f"{line}{source.newline}{indent}" for line in lines)
        return self.edit(Span(offset, offset), content)

    def imports(self, *modules: str) -> tuple[Edit, ...] | None:
        """Edits that make modules available at the top of the file under their own names.

        None where a name already means something else.
        """
        missing = []
        for module in modules:
            head = module.partition(".")[0]
            found = self.module.names.lookup(head, self.scope)
            if found is None:
                missing.append(module)
            elif self.module.names.qualified(ast.Name(head, ast.Load()), self.scope) != head:
                return None
        return self._import_edits(sorted(missing))

    def _import_edits(self, modules: list[str]) -> tuple[Edit, ...]:
        """Import statements, each at its alphabetical place in the block of imports that names torch."""
        source = self.module.source
        lines: dict[int, list[str]] = {}
        block = self._torch_imports()
        for module in modules:
            after = [s for s in block if isinstance(s, ast.Import) and s.names[0].name < module]
            if not block:
                offset = self._end_of_imports()
            elif after:
                offset = self._next_line(after[-1])
            else:
                offset = source.line_starts[block[0].lineno - 1]
            lines.setdefault(offset, []).append(f"import {module}")
        return tuple(self._line_edit(offset, tuple(some)) for offset, some in lines.items())

    def _torch_imports(self) -> list[ast.Import | ast.ImportFrom]:
        """The run of adjacent top-level imports that has one of torch in it."""
        run: list[ast.Import | ast.ImportFrom] = []
        found = False
        for statement in self.tree.body:
            is_import = isinstance(statement, ast.Import | ast.ImportFrom)
            if found and not (is_import and run and statement.lineno == (run[-1].end_lineno or 0) + 1):
                return run
            if isinstance(statement, ast.Import | ast.ImportFrom):
                if run and statement.lineno != (run[-1].end_lineno or 0) + 1:
                    run = []
                run.append(statement)
                names = [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else [statement.module or ""]
                found = found or any(name.partition(".")[0] == "torch" for name in names)
        return run if found else []

    def _next_line(self, statement: ast.stmt) -> int:
        """Offset of the line below a statement."""
        source = self.module.source
        row = source.location(self.span(statement).end).row
        return source.line_starts[row] if row < len(source.line_starts) else len(source.text)

    def _end_of_imports(self) -> int:
        """Offset behind the docstring and the imports at the top of the file."""
        anchor: ast.stmt | None = None
        for statement in self.tree.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                break
            docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if isinstance(statement, ast.Import | ast.ImportFrom) or (docstring and anchor is None):
                anchor = statement
        if anchor is not None:
            return self._next_line(anchor)
        return self.module.source.line_starts[self.tree.body[0].lineno - 1] if self.tree.body else len(self.module.source.text)

    def _line_edit(self, offset: int, lines: tuple[str, ...]) -> Edit:
        source = self.module.source
        ended = offset == 0 or source.text[:offset].endswith(("\n", "\r"))
        content = "".join(f"{line}{source.newline}" for line in lines)
        return self.edit(Span(offset, offset), content if ended else source.newline + content)

    def after_imports(self, *lines: str) -> Edit:
        """Insert lines behind the imports at the top of the file."""
        return self._line_edit(self._end_of_imports(), lines)


def _comments(text: str, span: Span) -> Iterator[str]:
    for line in text[span.start : span.end].splitlines():
        _, mark, comment = line.partition("#")
        if mark:
            yield comment.strip()
