"""What a rule reads of a file's text, and the rewrites that it plans."""

from __future__ import annotations

import ast
from collections.abc import Collection

from tpulint.finding import Span
from tpulint.model.module import Module
from tpulint.model.names.numbered import numbered
from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.blocks import only_asks
from tpulint.model.syntax.imports import end_of_imports, missing_imports
from tpulint.plan import Import, Kind, NodePath, Rewrite, path_of

_Node = ast.expr | ast.stmt | ast.keyword


class Editing:
    """The text of one file, and rewrites of its nodes, at one place."""

    __slots__ = ()

    module: Module
    scope: Scope

    def span(self, node: _Node) -> Span:
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

    def lines(self, statement: ast.stmt, *statements: str) -> str:
        """Statements below each other, as code for the place of another one."""
        source = self.module.source
        return f"{source.newline}{source.margin(statement)}".join(statements)

    def arguments(self, call: ast.Call) -> list[ast.expr | ast.keyword]:
        """The arguments of a call in the order in which they are written."""
        return sorted([*call.args, *call.keywords], key=lambda node: (node.lineno, node.col_offset))

    # rewrites of expressions

    def replace(self, node: _Node, code: str, *, bare: bool = False) -> Rewrite:
        """Replace an expression, a statement or an argument by other code.

        With `bare`, the parentheses around an expression go.
        """
        return self._rewrite(node, Kind.REPLACE, code, *(["bare"] if bare else []))

    def wrap(self, node: ast.expr, before: str, after: str) -> Rewrite:
        """Put code before and behind an expression, which other rewrites may change still."""
        return self._rewrite(node, Kind.WRAP, before, after)

    def reduce(self, node: ast.expr, part: ast.expr) -> Rewrite:
        """Replace an expression by one of its parts, which other rewrites may change still."""
        return Rewrite(self._path(node), Kind.REDUCE, parts=(self._path(part),))

    def rename(self, node: ast.expr | ast.keyword | ast.arg | ast.FunctionDef, name: str) -> Rewrite:
        """Give a name, the last part of a dotted name, a keyword argument or a function another name."""
        return self._rewrite(node, Kind.RENAME, name)

    def add_argument(self, call: ast.Call, code: str, place: int | None = None) -> Rewrite:
        """Give a call one more argument, behind the others, or at a place among them."""
        return self._rewrite(call, Kind.ADD_ARGUMENT, code, *([] if place is None else [str(place)]))

    def name_argument(self, argument: ast.expr, name: str) -> Rewrite:
        """Pass an argument of a call by name that is passed by position."""
        return self._rewrite(argument, Kind.NAME_ARGUMENT, name)

    def remove_argument(self, argument: ast.expr | ast.keyword) -> Rewrite:
        """Take an argument out of a call."""
        return self._rewrite(argument, Kind.REMOVE_ARGUMENT)

    def without_keywords(self, call: ast.Call, names: Collection[str]) -> tuple[Rewrite, ...]:
        """Take keyword arguments out of a call."""
        return tuple(self.remove_argument(word) for word in call.keywords if word.arg in names)

    # rewrites of statements

    def insert_before(self, statement: ast.stmt, code: str) -> Rewrite:
        """Put statements before another one, below the comments above it."""
        return self._rewrite(statement, Kind.INSERT_BEFORE, code)

    def insert_above(self, statement: ast.stmt, code: str) -> Rewrite:
        """Put statements before another one and the comments above it."""
        return self._rewrite(statement, Kind.INSERT_ABOVE, code)

    def insert_after(self, statement: ast.stmt, code: str) -> Rewrite:
        """Put statements behind another one."""
        return self._rewrite(statement, Kind.INSERT_AFTER, code)

    def replace_run(self, first: ast.stmt, count: int, code: str) -> Rewrite:
        """Replace a statement, and those behind it in its block, by others."""
        return self._rewrite(first, Kind.REPLACE_RUN, code, str(count))

    def delete(self, statement: ast.stmt) -> Rewrite:
        """Delete a statement with its line, or put `pass` where its block would be left empty.

        A condition that is left with nothing to decide goes, too, and so does a `try` with nothing to try.
        A comment behind it on the same line goes with it, which makes the fix unsafe.
        """
        outer = self.module.parent(statement)
        if (
            isinstance(outer, ast.If)
            and outer.body == [statement]
            and not outer.orelse
            and only_asks(outer)
            and not self.module.project.keeps_gpu
        ):
            is_first = self.module.source.text.startswith("if", self.span(outer).start)  # no `elif`
            return self.delete(outer) if is_first else self.replace(statement, "pass")
        if isinstance(outer, ast.Try) and [*outer.body, *outer.orelse, *outer.finalbody] == [statement]:
            return self.delete(outer)
        blocks = (
            [value for value in vars(outer).values() if isinstance(value, list)] if outer is not None else []
        )
        is_alone = any(statement in block and len(block) == 1 for block in blocks)
        if (is_alone and not isinstance(outer, ast.Module)) or self.module.source.shares_row(statement):
            return self.replace(statement, "pass")
        return self._rewrite(statement, Kind.DELETE)

    def insert_below_imports(self, code: str, before: int | None = None) -> Rewrite:
        """Put statements below the docstring and the imports at the top of the file, or above a row of it."""
        tree, source = self.module.source.tree, self.module.source
        last = end_of_imports(tree, before)
        if last is None:
            return self.insert_above(tree.body[0], code)
        is_import = isinstance(last, ast.Import | ast.ImportFrom)
        if is_import and source.shares_row(last):  # what follows on its line may need the statements
            return self.insert_before(last, code)
        return self.insert_after(last, f"{source.newline}{code}")

    def enclose(self, statement: ast.stmt, header: str) -> Rewrite:
        """Put a statement, which other rewrites may change still, into a block under a header."""
        return self._rewrite(statement, Kind.WRAP, header)

    def move_out(self, block: ast.With, count: int) -> Rewrite:
        """Move the last statements of a `with` behind it."""
        return self._rewrite(block, Kind.MOVE_OUT, str(count))

    def add_else(self, statement: ast.If, code: str) -> Rewrite:
        """Give an `if` an `else` with statements, in the place of any that it has."""
        return self._rewrite(statement, Kind.ADD_ELSE, code)

    def unwrap(self, statement: ast.With, item: ast.withitem) -> tuple[Rewrite, ...] | None:
        """Take an item out of a `with`, and with its last item the `with` from around its body.

        None where the item binds a name.
        """
        if item.optional_vars is not None:
            return None
        place = statement.items.index(item)
        return (Rewrite((*self._path(statement), ("items", place)), Kind.UNWRAP),)

    def add_decorator(
        self, function: ast.FunctionDef | ast.ClassDef, text: str, *, outermost: bool = False
    ) -> Rewrite:
        """Put a decorator, without its `@`, right above a function or class, or above its decorators."""
        return self._rewrite(function, Kind.ADD_DECORATOR, text, *(["outermost"] if outermost else []))

    def remove_decorator(self, decorator: ast.expr) -> tuple[Rewrite, ...] | None:
        """Take a decorator away with its line; None where a comment stands on that line."""
        source, span = self.module.source, self.span(decorator)
        end_row = source.location(span.end).row
        end = source.line_starts[end_row] if end_row < len(source.line_starts) else len(source.text)
        if source.text[span.end : end].strip():
            return None
        return (self._rewrite(decorator, Kind.REMOVE_DECORATOR),)

    # imports

    def imports(self, *statements: str) -> tuple[Import, ...] | None:
        """Import statements of one name each, such as `import numpy as np`, where they lack.

        None where a name already means something else.
        """
        missing = missing_imports(self.module, statements, self.scope)
        return None if missing is None else tuple(map(Import, missing))

    def _path(self, node: ast.AST) -> NodePath:
        return path_of(node, self.module.parent)

    def _rewrite(self, node: ast.AST, kind: Kind, *code: str) -> Rewrite:
        return Rewrite(self._path(node), kind, code)
