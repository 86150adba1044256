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


def end_of_imports(tree: ast.Module, before: int | None = None) -> ast.stmt | None:
    """The last statement of the docstring and the imports at the top of a file, or above a row of it."""
    last: ast.stmt | None = None
    for statement in tree.body:
        is_below = before is not None and (statement.end_lineno or statement.lineno) >= before
        if isinstance(statement, _NOT_AT_THE_TOP) or is_below:
            break
        docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if isinstance(statement, ImportNode) or (docstring and last is None):
            last = statement
    return last


def split_imports(before: str, after: str) -> list[tuple[int, int, str]]:
    """Adjacent imports from one module that `before` lacks: the first row, the last, and one for all."""
    known = set(before.splitlines())
    lines = after.splitlines()
    runs: list[list[ast.ImportFrom]] = []
    for node in ast.parse(after).body:
        if not isinstance(node, ast.ImportFrom) or node.lineno != node.end_lineno:
            continue
        if lines[node.lineno - 1] in known or ast.unparse(node) != lines[node.lineno - 1]:
            continue
        last = runs[-1][-1] if runs else None
        joins = last is not None and last.lineno + 1 == node.lineno
        if joins and last is not None and (last.module, last.level) == (node.module, node.level):
            runs[-1].append(node)
        else:
            runs.append([node])
    found = []
    for run in (run for run in runs if len(run) > 1):
        names = sorted((alias for node in run for alias in node.names), key=lambda alias: alias.name)
        joined = ast.ImportFrom(run[0].module, names, run[0].level)
        found.append((run[0].lineno, run[-1].lineno, ast.unparse(joined)))
    return found


def orphaned_imports(before: str, after: str) -> list[tuple[int, str | None]]:
    """Top-level imports of `after` whose names `before` used and `after` does not.

    So are modules that `before` does not import, and of which `after` only needs that another statement, too,
    runs them. Each is given as the row of the statement with the text that it shrinks to, None where it goes
    altogether. Statements over several lines, and files that list `__all__`, are left alone.
    """
    if "__all__" in after:
        return []
    former, tree = ast.parse(before), ast.parse(after)
    used_before, used_after = _used_names(former), _used_names(tree)
    run = {node.module for node in tree.body if isinstance(node, ast.ImportFrom) and not node.level}
    run -= {alias.name for node in ast.walk(former) if isinstance(node, ast.Import) for alias in node.names}
    found: list[tuple[int, str | None]] = []
    for statement in tree.body:
        if not isinstance(statement, ImportNode) or statement.lineno != statement.end_lineno:
            continue
        kept = [
            alias
            for alias in statement.names
            if not _is_orphan(alias, used_before, used_after)
            and not (isinstance(statement, ast.Import) and _runs_again(alias, run, used_after))
        ]
        if len(kept) != len(statement.names):
            statement.names = kept
            found.append((statement.lineno, ast.unparse(statement) if kept else None))
    return found


def _is_orphan(alias: ast.alias, before: set[str], after: set[str]) -> bool:
    if alias.asname is None and "." in alias.name:
        return False  # `import a.b` binds `a`, which the file may have from elsewhere too
    name = alias.asname or alias.name
    return name in before and name not in after


def _used_names(tree: ast.Module) -> set[str]:
    used = {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            used.update(part for part in _words(node.value))  # annotations as text
    return used


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in text).split()


def _runs_again(alias: ast.alias, run: set[str | None], used: set[str]) -> bool:
    """Whether a module is imported for nothing but that it runs, as it does anyway."""
    return alias.asname is None and alias.name in run and alias.name.partition(".")[0] not in used
