"""`ctx.rewrite`: code to write, rewrites of nodes, imports, and the fixes that consist of these."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tpulint.finding import Applicability, Fix
from tpulint.knowledge.runtime import DISABLE, ENABLE, PACKAGE
from tpulint.knowledge.targets import TARGETS
from tpulint.model.devices.two_way import only_without_cuda
from tpulint.model.names.numbered import numbered
from tpulint.model.syntax.blocks import only_asks
from tpulint.model.syntax.imports import end_of_imports, missing_imports, respelled
from tpulint.model.syntax.layout import call_lines
from tpulint.model.training.placing import placed
from tpulint.model.training.regions import Region
from tpulint.model.training.sharing import put_apart
from tpulint.model.values.kinds import Tensor
from tpulint.model.values.uses import in_place_of_number
from tpulint.plan import Change, Import, Kind, NodePath, Rewrite, path_of
from tpulint.rules_api.fixes import assembled, one_line
from tpulint.rules_api.namespace import Namespace
from tpulint.source import require_ast

_Node = ast.expr | ast.stmt | ast.keyword


class Rewriting(Namespace):
    """Code to write, rewrites of nodes, imports, and the fixes that consist of these."""

    __slots__ = ()

    def block_text(self, node: ast.expr) -> str:
        """The source of a node, each row after the first one without the indentation of its statement."""
        margin = self._module.source.margin(self._module.statement(node))
        first, *rows = self._text(node).splitlines()
        return "\n".join([first, *(row.removeprefix(margin) for row in rows)])

    def comments_above(self, statement: ast.stmt) -> list[str]:
        """The comments on the rows right above a statement, each with its `#`."""
        source, row = self._module.source, statement.lineno - 1
        found: list[str] = []
        while row and source.line(row).lstrip().startswith("#"):
            found.insert(0, source.line(row).strip())
            row -= 1
        return found

    def new_name(self, name: str) -> str:
        """A name that the enclosing function does not use: this one, or this one with a number."""
        function = self.scope.function
        tree = function.node if function is not None else self._module.source.tree
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        used |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        return next(one for one in numbered(name) if one not in used)

    def operand(self, node: ast.expr) -> str:
        """The source of an expression, in parentheses where an attribute after it would split it."""
        tight = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
        return self._text(node) if tight else f"({self._text(node)})"

    def grouped(self, node: ast.expr, code: str) -> str:
        """Code to put in place of a node, in parentheses where the code around would split it."""
        outer = self._module.parent(node)
        splits = isinstance(outer, ast.BinOp | ast.UnaryOp | ast.Attribute | ast.Subscript | ast.Compare)
        return f"({code})" if splits else code

    def quoted(self, value: str, like: ast.expr) -> str:
        """A string literal in the quotes of another one."""
        mark = "'" if self._text(like).rstrip().endswith("'") else '"'
        return f"{mark}{value}{mark}"

    def call_as_first_process(self, given: Mapping[str, ast.expr]) -> str:
        """A call of the function `fn` as process 0, from the arguments of a call that starts processes."""
        match given.get("args"):
            case None:
                arguments = ["0"]
            case ast.Tuple(elts=items):
                arguments = ["0", *(self._text(item) for item in items)]
            case several:
                arguments = ["0", f"*{self._text(several)}"]
        return f"{self.operand(given['fn'])}({', '.join(arguments)})"

    def lines(self, statement: ast.stmt, *statements: str) -> str:
        """Statements below each other, as code that replaces another statement."""
        source = self._module.source
        return f"{source.newline}{source.margin(statement)}".join(statements)

    def arguments(self, call: ast.Call) -> list[ast.expr | ast.keyword]:
        """The arguments of a call in the order in which they are written."""
        return sorted([*call.args, *call.keywords], key=lambda node: (node.lineno, node.col_offset))

    @property
    def device(self) -> str:
        """The device as a text, where a fix writes it: torchax's, with CUDA's if that is kept."""
        kept = self._module.project.keeps_gpu
        return '"cuda" if torch.cuda.is_available() else "jax"' if kept else '"jax"'

    def in_place_of_number(self, tensor: ast.expr, kind: Tensor) -> str:
        """The source of a tensor in place of its scalar, detached, since a scalar has no gradient."""
        return in_place_of_number(tensor, self._text(tensor), kind)

    def call_lines(self, head: str, arguments: Sequence[str], indent: str) -> list[str]:
        """The lines of a call: one line if it fits, else one or more for each argument.

        `head` is the code before the parentheses of the call.
        """
        return call_lines(head, arguments, indent, self._module.source.indent)

    # rewrites of expressions

    def replace(self, node: _Node, code: str, *, bare: bool = False) -> Rewrite:
        """Replace an expression, a statement or an argument by other code.

        With `bare`, the parentheses around an expression go.
        """
        return self._rewrite(node, Kind.REPLACE, code, *(["bare"] if bare else []))

    def wrap(self, node: ast.expr, before: str, after: str) -> Rewrite:
        """Put code before and after an expression, which other rewrites may change still."""
        return self._rewrite(node, Kind.WRAP, before, after)

    def reduce(self, node: ast.expr, part: ast.expr) -> Rewrite:
        """Replace an expression by one of its parts, which other rewrites may change still."""
        return Rewrite(self._path(node), Kind.REDUCE, parts=(self._path(part),))

    def rename(self, node: ast.expr | ast.keyword | ast.arg | ast.FunctionDef, name: str) -> Rewrite:
        """Give a name, the last part of a dotted name, a keyword argument or a function another name."""
        return self._rewrite(node, Kind.RENAME, name)

    def add_argument(self, call: ast.Call, code: str, place: int | None = None) -> Rewrite:
        """Give a call one more argument, after the others, or at a position among them."""
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
        """Put statements after another one."""
        return self._rewrite(statement, Kind.INSERT_AFTER, code)

    def replace_run(self, first: ast.stmt, count: int, code: str) -> Rewrite:
        """Replace a statement, and those after it in its block, by others."""
        return self._rewrite(first, Kind.REPLACE_RUN, code, str(count))

    def delete(self, statement: ast.stmt) -> Rewrite:
        """Delete a statement, with its line if it is alone there; put `pass` in a block left empty.

        A condition that is left with nothing to decide goes, too, and so does a `try` with nothing to try.
        A comment after it on the same line goes with it, which makes the fix unsafe.
        """
        outer = self._module.parent(statement)
        if (
            isinstance(outer, ast.If)
            and outer.body == [statement]
            and not outer.orelse
            and only_asks(outer)
            and not self._module.project.keeps_gpu
        ):
            is_first = self._module.source.text.startswith("if", self._span(outer).start)  # no `elif`
            return self.delete(outer) if is_first else self.replace(statement, "pass")
        if isinstance(outer, ast.Try) and [*outer.body, *outer.orelse, *outer.finalbody] == [statement]:
            return self.delete(outer)
        blocks = (
            [value for value in vars(outer).values() if isinstance(value, list)] if outer is not None else []
        )
        is_alone = any(statement in block and len(block) == 1 for block in blocks)
        if is_alone and not isinstance(outer, ast.Module):
            return self.replace(statement, "pass")
        return self._rewrite(statement, Kind.DELETE)

    def insert_below_imports(self, code: str, before: ast.expr | ast.stmt | None = None) -> Rewrite:
        """Put statements below the docstring and the imports at the top of the file, or ahead of a node."""
        tree, source = self._module.source.tree, self._module.source
        last = end_of_imports(tree, before)
        if last is None:
            return self.insert_above(tree.body[0], code)
        return self.insert_after(last, f"{source.newline}{code}")

    def enclose(self, statement: ast.stmt, header: str) -> Rewrite:
        """Put a statement, which other rewrites may change still, into a block under a header."""
        return self._rewrite(statement, Kind.WRAP, header)

    def move_out(self, block: ast.With, count: int) -> Rewrite:
        """Move the last statements of a `with` after it."""
        return self._rewrite(block, Kind.MOVE_OUT, str(count))

    def add_else(self, statement: ast.If, code: str) -> Rewrite:
        """Give an `if` an `else` with statements, instead of any that it has."""
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
        source, span = self._module.source, self._span(decorator)
        end_row = source.location(span.end).row
        end = source.line_starts[end_row] if end_row < len(source.line_starts) else len(source.text)
        if source.text[span.end : end].strip():
            return None
        return (self._rewrite(decorator, Kind.REMOVE_DECORATOR),)

    def rename_import(self, statement: ast.ImportFrom, alias: ast.alias, target: str) -> Rewrite:
        """The rewrite that imports one name of a statement from elsewhere, under the name that it had."""
        return self.replace(statement, self.lines(statement, *respelled(statement, alias, target)))

    def split_lines(self, statements: Iterable[ast.stmt]) -> list[Rewrite] | None:
        """Give each statement on the lines of these a line of its own; None where all have one."""
        return put_apart(self._module, statements)

    def outline(self, found: Region, name: str, decorator: str) -> list[Rewrite] | None:
        """Move statements into a new function, and call it instead; None where that is not possible."""
        return placed(self._module, self._module.training_steps.changing, found, self.scope, name, decorator)

    # imports

    def imports(self, *statements: str) -> tuple[Import, ...] | None:
        """Import statements of one name each, such as `import numpy as np`, where they lack.

        None where a name already means something else, or is of a library that the target does not use.
        """
        if not all(map(TARGETS[self._module.project.target].imports, statements)):
            return None
        missing = missing_imports(self._module, statements, self.scope)
        return None if missing is None else tuple(map(Import, missing))

    def only_without_cuda(self, statement: Import) -> Import:
        """An import after the others, where there is no CUDA, above whatever may need torchax."""
        return only_without_cuda(self._module, statement)

    # fixes

    def fix(
        self,
        title: str,
        *changes: Change,
        applicability: Applicability = Applicability.SAFE,
        serves_cuda: bool = False,
    ) -> Fix:
        """A fix from rewrites and imports; if a safe one would delete a comment, it is unsafe.

        So does one that writes the torchax device into a program that does not enter the torchax environment:
        the program would raise until the fix that enters it, which is unsafe, is applied as well.
        A rewrite within what another one deletes goes with it.

        Raises:
            TypeError: for a change that is neither a rewrite nor an import.
        """
        for change in changes:
            if not isinstance(change, Rewrite | Import):
                raise TypeError(f"a change is a rewrite or an import, not {type(change).__name__}")
        return assembled(
            self._module,
            one_line(title),
            changes,
            applicability,
            serves_cuda=serves_cuda,
            in_torchax=self._enters_environment,
        )

    @property
    def _enters_environment(self) -> bool:
        """Whether a program that the file is a part of enters the torchax environment."""
        return self._module.name in self._module.project.programs.entering

    def runtime_import(self, name: str = "") -> tuple[Import, ...] | None:
        """What imports the runtime, or a name of it; None where its name means something else."""
        return self.imports(f"from {PACKAGE} import {name}" if name else f"import {PACKAGE}")

    def runtime_fix(self, title: str, entry: ast.Call | None = None) -> Fix | None:
        """The fix that enters the environment through the runtime, where the file enters it now.

        `entry` is the call that enters it, by default the first of the file. None in files that do not enter
        it, and where `torchax_compat` means something else.
        """
        first = next(self._calls_of_torchax("enable_globally"), None)
        entry = entry or first
        imports = self.runtime_import() if entry is not None else None
        if entry is None or imports is None:
            return None
        edits = [self.replace(entry, f"{ENABLE}()")]
        if entry is first:
            edits += [
                self.replace(call, f"{DISABLE}()") for call in self._calls_of_torchax("disable_globally")
            ]
        return self.fix(title, *imports, *edits, applicability=Applicability.UNSAFE, serves_cuda=True)

    def _calls_of_torchax(self, name: str) -> Iterator[ast.Call]:
        for call, at in self._module.index.calls.get(name, ()):
            if isinstance(call, ast.Call):
                qualified = self._module.names.qualified(call.func, at)
                if qualified is not None and self._module.project.resolve(qualified) == f"torchax.{name}":
                    yield call

    def _path(self, node: ast.AST) -> NodePath:
        require_ast(node)
        return path_of(node, self._module.parent)

    def _rewrite(self, node: ast.AST, kind: Kind, *code: str) -> Rewrite:
        return Rewrite(self._path(node), kind, code)
