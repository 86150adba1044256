"""The context that a rule gets: one location in one file, and the namespaces of questions about it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tpulint.finding import Finding, Fix, Location, Related, Severity, Span
from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.values.pending import body_around
from tpulint.rules_api.devices import Devices
from tpulint.rules_api.fixes import one_line, within_formatted
from tpulint.rules_api.names import Names
from tpulint.rules_api.program import Program
from tpulint.rules_api.rewrite import Rewriting
from tpulint.rules_api.trace import Trace
from tpulint.rules_api.types import Types
from tpulint.source import Source, require_ast

if TYPE_CHECKING:
    from tpulint.rewrite.tree import Tree

_T = TypeVar("_T")


class Reporter(Protocol):
    """What a finding says of the rule that made it."""

    code: str
    name: str
    url: str | None
    optional: bool
    severity: Severity


class Context:
    """One file as a rule sees it, at one location."""

    __slots__ = ("__dict__", "_module", "rule", "scope")

    def __init__(self, rule: Reporter, module: Module, scope: Scope) -> None:
        self.rule = rule
        self._module = module
        self.scope = scope

    # namespaces

    @property
    def names(self) -> Names:
        """Qualified names, scopes, and what names are bound to."""
        return Names(self._module, self.scope)

    @property
    def types(self) -> Types:
        """Inferred types of values, and how values are used."""
        return Types(self._module, self.scope)

    @property
    def trace(self) -> Trace:
        """Whether and why code is traced, and what outlives a trace."""
        return Trace(self._module, self.scope)

    @property
    def devices(self) -> Devices:
        """Checks for CUDA, expressions that name devices, and where tensors live."""
        return Devices(self._module, self.scope)

    @property
    def program(self) -> Program:
        """The project, and the programs that the file is a part of."""
        return Program(self._module, self.scope)

    @property
    def rewrite(self) -> Rewriting:
        """Code to write, rewrites of nodes, imports, and the fixes that consist of these."""
        return Rewriting(self._module, self.scope)

    # the file, and other locations in it

    @property
    def source(self) -> Source:
        """The file's text and layout."""
        return self._module.source

    @cached_property
    def tree(self) -> ast.Module:
        """The file's syntax tree."""
        return self._module.source.tree

    def at(self, scope: Scope) -> Context:
        """The same file at another location."""
        return Context(self.rule, self._module, scope)

    def calls(self, name: str) -> Iterator[tuple[ast.Call, Context]]:
        """The file's calls whose callee ends in a name, each with its location."""
        for node, scope in self._module.index.calls.get(name, ()):
            if isinstance(node, ast.Call):
                yield node, self.at(scope)

    def calls_on(self, value: ast.expr, method: str) -> Iterator[tuple[ast.Call, Context]]:
        """The file's calls of a method on what is written like a value, each with its location."""
        text = self.text(value)
        for call, at in self.calls(method):
            if isinstance(call.func, ast.Attribute) and self.text(call.func.value) == text:
                yield call, at

    def passed(self, parameter: ast.Name) -> Iterator[tuple[ast.expr, Context]]:
        """The values that calls in this file pass as a parameter of this function, each with its location."""
        for value, scope in self._module.handed(parameter.id, self.scope):
            yield value, self.at(scope)

    def once(self, question: Callable[[Context], _T]) -> _T:
        """The answer to a question about the whole file, which is asked once for it."""
        if question not in self._module.answers:
            self._module.answers[question] = question(self)
        answer: _T = self._module.answers[question]
        return answer

    # nodes

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> Span:
        """The characters of a node."""
        require_ast(node)
        return self._module.source.span(node)

    def text(self, node: ast.expr | ast.stmt) -> str:
        """The source of a node."""
        span = self.span(node)
        return self._module.source.text[span.start : span.end]

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node around a node."""
        return self._module.parent(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, innermost first."""
        return self._module.ancestors(node)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that a node stands in."""
        return self._module.statement(node)

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements that a statement is one of."""
        return self._module.block(statement)

    @property
    def function_body(self) -> list[ast.stmt]:
        """The statements of the enclosing function, or of the file."""
        return body_around(self._module, self.scope)

    # nodes of LibCST, which handlers with patterns get

    def node(self, given: Any) -> Any:
        """The node of `ast` for a node of LibCST that a pattern matched, or for a part of it.

        Raises:
            LookupError: for a node of LibCST that `ast` does not have, such as a comma.
            TypeError: for a node of `ast`.
        """
        return self._libcst(given, "node").node(given)

    def code(self, given: Any) -> str:
        """The source of a node of LibCST, also of a new or changed one."""
        return self._libcst(given, "code").code(given)

    def _libcst(self, given: Any, method: str) -> Tree:
        """The tree of LibCST that a node is from."""
        from tpulint.rewrite.tree import Tree  # LibCST is imported where there is a node of it

        if isinstance(given, ast.AST) or Tree not in self._module.answers:
            name = type(given).__name__
            raise TypeError(
                f"`ctx.{method}` takes nodes of LibCST, which handlers of patterns get, not {name}"
            )
        tree: Tree = self._module.answers[Tree]
        return tree

    # findings

    def finding(
        self,
        node: ast.expr | ast.stmt,
        message: str,
        fix: Fix | None = None,
        related: tuple[Related, ...] = (),
        *,
        severity: Severity | None = None,
    ) -> Finding:
        """A finding at a node; one in traced code carries the chain from its root.

        The severity is by default that of the rule.

        Before Python 3.12 the parser places what stands in nested f-strings wrongly: a finding there has no
        fix, and stands at the f-string if need be.

        Raises:
            TypeError: for a node of LibCST, and for a fix that is not one of `ctx.rewrite.fix`.
        """
        require_ast(node)
        span = self.span(node)
        formatted = [outer for outer in self.ancestors(node) if isinstance(outer, ast.JoinedStr)]
        if formatted:
            if not self.is_located(node):
                fix, span = None, self.span(formatted[-1])
            elif fix is not None:
                fix = within_formatted(self._module, formatted[0], fix) if len(formatted) == 1 else None
        return self.finding_at(span, message, fix, related or self._chain(), severity=severity)

    def is_located(self, node: ast.expr | ast.stmt) -> bool:
        """Whether the parser locates the node correctly, which it does not in some f-strings."""
        try:
            return ast.dump(ast.parse(f"({self.text(node)}\n)", mode="eval").body) == ast.dump(node)
        except (SyntaxError, ValueError):
            return False

    def finding_at(
        self,
        span: Span,
        message: str,
        fix: Fix | None = None,
        related: tuple[Related, ...] = (),
        *,
        severity: Severity | None = None,
    ) -> Finding:
        """A finding at a span, by default with the severity of the rule."""
        if fix is not None and not isinstance(fix, Fix):
            raise TypeError(f"a fix is what `ctx.rewrite.fix(...)` returns, not {type(fix).__name__}")
        source = self._module.source
        start, end = source.location(span.start), source.location(span.end)
        return Finding(
            source.path,
            start,
            end,
            self.rule.code,
            self.rule.name,
            one_line(self.program.target.spelled(message)),
            span,
            source.line(start.row),
            fix,
            related,
            self.rule.url,
            self.rule.optional,
            severity or self.rule.severity,
        )

    def _chain(self) -> tuple[Related, ...]:
        path = self.trace.path
        if path is None:
            return ()
        return tuple(Related(step.path, Location(step.row, step.column), step.label) for step in path.steps)
