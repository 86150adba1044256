"""Where an import statement goes, and which imports have lost their use."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.handlers import optional

if TYPE_CHECKING:
    from tpulint.model.syntax.parsed_file import ParsedFile

ImportNode = ast.Import | ast.ImportFrom


def missing_imports(module: ParsedFile, statements: tuple[str, ...], scope: Scope) -> list[str] | None:
    """Those of some import statements, one name each, whose name is not yet bound to what they import.

    None where one of the names means something else already.
    """
    missing = []
    for text in statements:
        node = ast.parse(text).body[0]
        assert isinstance(node, ImportNode)
        alias = node.names[0]
        name = alias.asname or alias.name.partition(".")[0]
        target = (
            f"{node.module}.{alias.name}"
            if isinstance(node, ast.ImportFrom)
            else alias.name
            if alias.asname
            else name
        )
        if module.names.lookup(name, scope) is None:
            missing.append(text)
        elif module.names.qualified(ast.Name(name, ast.Load()), scope) != target:
            return None
        elif alias.name not in (target, target.rpartition(".")[2], *module.index.inner_imports):
            missing.append(text)  # `import a` does not load `a.b`
    return missing


def first_import(module: ParsedFile, package: str) -> ImportNode | None:
    """The first import of a package, or of something in it, without which the file is not imported itself.

    One inside a function is how optional packages are imported.
    """
    found = [
        node
        for kind in (ast.Import, ast.ImportFrom)
        for node, scope in module.index.nodes[kind]
        if isinstance(node, ImportNode)
        and package in _heads(node)
        and scope.function is None
        and not optional(module, node, scope)
    ]
    return min(found, key=lambda node: node.lineno, default=None)


def respelled(statement: ast.ImportFrom, alias: ast.alias, target: str) -> list[str]:
    """Import statements in which one of a statement's names comes from elsewhere, under the name it had."""
    module, _, name = target.rpartition(".")
    local = alias.asname or alias.name
    moved = f"from {module} import {name}" + (f" as {local}" if local != name else "")
    if not module:
        moved = f"import {name}" + (f" as {local}" if local != name else "")
    rest = [other for other in statement.names if other is not alias]
    return [*([ast.unparse(ast.ImportFrom(statement.module, rest, statement.level))] if rest else []), moved]


def _heads(node: ImportNode) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom):
        if not node.level:
            yield (node.module or "").partition(".")[0]
    else:
        yield from (alias.name.partition(".")[0] for alias in node.names)


#: What no longer stands at the top of a file: scripts that were notebooks import once more further down.
_NOT_AT_THE_TOP = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.For | ast.While


def _end(node: ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def end_of_imports(tree: ast.Module, before: ast.expr | ast.stmt | None = None) -> ast.stmt | None:
    """The last statement of the docstring and the imports at the top of a file, or ahead of a node of it."""
    last: ast.stmt | None = None
    for statement in tree.body:
        is_below = before is not None and _end(statement) > (before.lineno, before.col_offset)
        if isinstance(statement, _NOT_AT_THE_TOP) or is_below:
            break
        docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if isinstance(statement, ImportNode) or (docstring and last is None):
            last = statement
    return last
