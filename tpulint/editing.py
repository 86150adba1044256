"""What a rule reads and writes of a file as text."""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import TYPE_CHECKING

from tpulint.arguments import Arguments, arguments, in_order
from tpulint.finding import Edit, Span
from tpulint.model.module import Module
from tpulint.model.names.numbered import numbered
from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.blocks import only_asks, without_item
from tpulint.model.syntax.imports import insertions, missing_imports

if TYPE_CHECKING:
    from tpulint.model.training.placing import Moved


class Editing:
    """The text of one file, and edits of it, at one place."""

    __slots__ = ()

    module: Module
    scope: Scope

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> Span:
        """The characters of a node."""
        return self.module.source.span(node)

    def text(self, node: ast.expr | ast.stmt) -> str:
        """The source of a node."""
        span = self.span(node)
        return self.module.source.text[span.start : span.end]

    def block_text(self, node: ast.expr) -> str:
        """The source of a node, each row after the first one without the indentation of its statement."""
        margin = self.module.source.margin(self.module.statement(node))
        first, *rows = self.text(node).splitlines()
        return "\n".join([first, *(row.removeprefix(margin) for row in rows)])

    def comments_above(self, statement: ast.stmt) -> list[str]:
        """The comments on the rows right above a statement, each with its `#`."""
        source, row = self.module.source, statement.lineno - 1
        found: list[str] = []
        while row and source.line(row).lstrip().startswith("#"):
            found.insert(0, source.line(row).strip())
            row -= 1
        return found

    def new_name(self, name: str) -> str:
        """A name that the enclosing function does not use: this one, or this one with a number."""
        function = self.scope.function
        tree = function.node if function is not None else self.module.source.tree
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        used |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        return next(one for one in numbered(name) if one not in used)

    def operand(self, node: ast.expr) -> str:
        """The source of an expression, in parentheses where an attribute behind it would split it."""
        tight = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
        return self.text(node) if tight else f"({self.text(node)})"

    def grouped(self, node: ast.expr, code: str) -> str:
        """Code for the place of a node, in parentheses where what stands around would split it."""
        outer = self.module.parent(node)
        splits = isinstance(outer, ast.BinOp | ast.UnaryOp | ast.Attribute | ast.Subscript | ast.Compare)
        return f"({code})" if splits else code

    def quoted(self, value: str, like: ast.expr) -> str:
        """A string literal in the quotes of another one."""
        mark = "'" if self.text(like).rstrip().endswith("'") else '"'
        return f"{mark}{value}{mark}"

    # the arguments of a call

    def arguments(self, call: ast.Call) -> Arguments:
        """The arguments of a call as the file has them."""
        return arguments(call, self.module.source)

    def with_arguments(self, call: ast.Call, changed: Arguments, method: str | None = None) -> Edit:
        """The edit that gives a call other arguments, and another method where one is named."""
        callee = self.module.source.text[self.span(call).start : self.span(call.func).end]
        if method is not None and isinstance(call.func, ast.Attribute):
            callee = f"{callee.removesuffix(call.func.attr)}{method}"
        return self.replace(call, f"{callee}{changed}")

    def without_keywords(self, call: ast.Call, names: Collection[str]) -> Edit:
        """The edit that takes keyword arguments out of a call."""
        given = enumerate(in_order(call))
        dropped = [number for number, node in given if isinstance(node, ast.keyword) and node.arg in names]
        return self.with_arguments(call, self.arguments(call).without(dropped))

    def edit(self, span: Span, content: str) -> Edit:
        """Replace a span."""
        source = self.module.source
        return Edit(span, content, source.location(span.start), source.location(span.end))

    def replace(self, node: ast.expr | ast.stmt, content: str) -> Edit:
        """Replace a node."""
        return self.edit(self.span(node), content)

    def delete(self, statement: ast.stmt) -> Edit:
        """Delete a statement with its line, or put `pass` where its block would be left empty.

        A condition that is left with nothing to decide goes, too, and so does a `try` with nothing to try.
        A comment behind it on the same line goes with it, which makes the fix unsafe.
        """
        outer = self.module.parent(statement)
        source, span = self.module.source, self.span(statement)
        if (
            isinstance(outer, ast.If)
            and outer.body == [statement]
            and not outer.orelse
            and only_asks(outer)
            and not self.module.project.keeps_gpu
        ):
            is_first = source.text.startswith("if", self.span(outer).start)  # no `elif`
            return self.delete(outer) if is_first else self.edit(span, "pass")
        if isinstance(outer, ast.Try) and [*outer.body, *outer.orelse, *outer.finalbody] == [statement]:
            return self.delete(outer)
        blocks = (
            [value for value in vars(outer).values() if isinstance(value, list)] if outer is not None else []
        )
        if any(statement in block and len(block) == 1 for block in blocks):
            return self.edit(span, "pass")
        text = source.text
        line_start = source.line_starts[source.location(span.start).row - 1]
        end_row = source.location(span.end).row
        line_end = source.line_starts[end_row] if end_row < len(source.line_starts) else len(text)
        if not text[line_start : span.start].strip() and not text[span.end : line_end].split("#")[0].strip():
            return self.edit(Span(line_start, line_end), "")
        return self.edit(span, "pass")

    def unwrap(self, statement: ast.With, item: ast.withitem) -> tuple[Edit, ...] | None:
        """Edits that take an item out of a `with`, and with its last item the `with` from around its body.

        None where the item binds a name or its layout is unusual.
        """
        edits = without_item(self.module.source, statement, item) if item.optional_vars is None else None
        return tuple(self.edit(span, text) for span, text in edits) if edits is not None else None

    def add_decorator(self, function: ast.FunctionDef, text: str) -> Edit:
        """The edit that puts a decorator, without its `@`, right above a function."""
        source = self.module.source
        return self.insert(
            source.line_starts[function.lineno - 1], f"{source.ahead_of(function)}@{text}{source.newline}"
        )

    def move(self, moved: Moved) -> tuple[Edit, ...]:
        """The edits that make a region a function, and put a call in its place."""
        bindings = (self.insert(offset, line) for offset, line in moved.bindings)
        return self.insert(moved.offset, moved.definition), self.edit(moved.span, moved.call), *bindings

    def remove_decorator(self, decorator: ast.expr) -> tuple[Edit, ...] | None:
        """Edits that take a decorator away with its line; None where it shares that line."""
        source, span = self.module.source, self.span(decorator)
        start = source.line_starts[source.location(span.start).row - 1]
        end_row = source.location(span.end).row
        end = source.line_starts[end_row] if end_row < len(source.line_starts) else len(source.text)
        if source.text[start : span.start].strip() != "@" or source.text[span.end : end].strip():
            return None
        return (self.edit(Span(start, end), ""),)

    def imports(self, *statements: str) -> tuple[Edit, ...] | None:
        """Edits that add import statements of one name each, such as `import numpy as np`, where they lack.

        None where a name already means something else.
        """
        missing = missing_imports(self.module, statements, self.scope)
        if missing is None:
            return None
        return tuple(self.insert(offset, text) for offset, text in insertions(self.module, missing).items())

    def insert(self, offset: int, text: str) -> Edit:
        """Insert text at an offset."""
        return self.edit(Span(offset, offset), text)
