"""Imports that fixes added, changed or left without a use."""

from __future__ import annotations

import ast
import sys

from tpulint.knowledge.runtime import ENABLE, IMPORTED_BY_ENABLE
from tpulint.model.syntax.undefined import undefined_names
from tpulint.tidy.text import Text, indent_of, new_rows, nodes, parsed, parted

#: Says to linters that a module is imported for what its import does.
_MARK = "  # noqa: F401"


def without_orphans(before: str, after: str) -> str:
    """`after` without the imports whose last use the fixes took away."""
    for row, shrunk in reversed(_orphans(before, after)):
        text = Text(after)
        bare, ending = parted(text.lines[row - 1])
        plain = bare.replace(_MARK, "")
        if "#" in plain or ";" in plain:
            continue
        lines = list(text.lines)
        lines[row - 1] = "" if shrunk is None else f"{shrunk}{ending}"
        shorter = "".join(lines)
        if undefined_names(shorter) <= undefined_names(after):
            after = shorter
    return after


def joined(before: str, after: str) -> str:
    """`after` with one statement for adjacent imports from one module that the fixes added."""
    for first, last, statement in reversed(_split(before, after)):
        text = Text(after)
        _, ending = parted(text.lines[last - 1])
        after = "".join([*text.lines[: first - 1], f"{statement}{ending}", *text.lines[last:]])
    return after


def marked(before: str, after: str) -> str:
    """`after` with a comment behind each added import that is there for its effect alone.

    Linters would otherwise take the import for unused, and some remove it.
    What `torchax_compat.enable()` imports itself goes, in a file that calls it at its top level.
    """
    text = Text(after)
    rows = new_rows(before, after)
    used = {node.id for node in nodes(text.text) if isinstance(node, ast.Name)}
    lines = list(text.lines)
    enables = any(map(_enables, text.tree.body))
    known = {alias.name for node in nodes(before) if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes(text.text):
        if not isinstance(node, ast.Import) or node.lineno not in rows or len(node.names) > 1:
            continue
        if node.names[0].name in known or not text.stands_alone(node):
            continue
        alias = node.names[0]
        bare, ending = parted(lines[node.lineno - 1])
        if alias.asname is not None or "." in alias.name or alias.name in used or "#" in bare:
            continue
        if enables and alias.name in IMPORTED_BY_ENABLE:
            lines[node.lineno - 1] = ""
        else:
            lines[node.lineno - 1] = f"{bare}{_MARK}{ending}"
    return "".join(lines)


def _enables(statement: ast.stmt) -> bool:
    """Whether a statement is `torchax_compat.enable()`."""
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(package), name))):
            return f"{package}.{name}" == ENABLE
    return False


def _split(before: str, after: str) -> list[tuple[int, int, str]]:
    """Adjacent imports from one module that `before` lacks: the first row, the last, and one for all."""
    known = set(before.splitlines())
    lines = after.splitlines()
    runs: list[list[ast.ImportFrom]] = []
    for node in parsed(after).body:
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


def _orphans(before: str, after: str) -> list[tuple[int, str | None]]:
    """Top-level imports of `after` whose names `before` used and `after` does not.

    So are modules that `before` does not import, and of which `after` only needs that another statement, too,
    runs them. Each is given as the row of the statement with the text that it shrinks to, None where it goes
    altogether. Statements over several lines, and files that list `__all__`, are left alone.
    """
    if "__all__" in after:
        return []
    used_before, used_after = _used_names(before), _used_names(after)
    body = parsed(after).body
    run = {node.module for node in body if isinstance(node, ast.ImportFrom) and not node.level}
    run -= {alias.name for node in nodes(before) if isinstance(node, ast.Import) for alias in node.names}
    found: list[tuple[int, str | None]] = []
    for statement in body:
        if not isinstance(statement, ast.Import | ast.ImportFrom) or statement.lineno != statement.end_lineno:
            continue
        kept = [
            alias
            for alias in statement.names
            if not _is_orphan(alias, used_before, used_after)
            and not (isinstance(statement, ast.Import) and _runs_again(alias, run, used_after))
        ]
        if len(kept) != len(statement.names):
            found.append((statement.lineno, _with_names(statement, kept) if kept else None))
    return found


def _with_names(statement: ast.Import | ast.ImportFrom, names: list[ast.alias]) -> str:
    if isinstance(statement, ast.Import):
        return ast.unparse(ast.Import(names))
    return ast.unparse(ast.ImportFrom(statement.module, names, statement.level))


def _is_orphan(alias: ast.alias, before: set[str], after: set[str]) -> bool:
    if alias.asname is None and "." in alias.name:
        return False  # `import a.b` binds `a`, which the file may have from elsewhere too
    name = alias.asname or alias.name
    return name in before and name not in after


def _used_names(text: str) -> set[str]:
    used = {node.id for node in nodes(text) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    for node in nodes(text):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            used.update(part for part in _words(node.value))  # annotations as text
    return used


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in text).split()


def _runs_again(alias: ast.alias, run: set[str | None], used: set[str]) -> bool:
    """Whether a module is imported for nothing but that it runs, as it does anyway."""
    return alias.asname is None and alias.name in run and alias.name.partition(".")[0] not in used


def sorted_like(before: str, after: str, width: int) -> str:
    """`after` with its imports in the order of isort, if those of `before` are in that order.

    That is the order of isort's profile "black", or of isort without a profile.
    """
    if _imports(after) == _imports(before):
        return after
    after = _sorted_runs(before, after)
    if not _may_be_sorted(before):
        return after
    import isort

    for profile in ("black", ""):
        config = isort.Config(profile=profile, line_length=width, quiet=True)
        try:
            if isort.code(before, config=config) == before:
                made = isort.code(after, config=config)
                return made if _rest(made) == _rest(after) else after
        except isort.exceptions.ISortError:
            return after
    return after


def _may_be_sorted(text: str) -> bool:
    """Whether isort may leave the imports of a text as they are, which it does not where these mix.

    It puts a blank line between those of the standard library and others, and `from` behind `import`.
    """
    if "isort" in text:
        return True
    former: ast.stmt | None = None
    for node in parsed(text).body:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            former = None
            continue
        if former is not None and node.lineno == (former.end_lineno or 0) + 1:
            one, other = _order(ast.unparse(former)), _order(ast.unparse(node))
            if one[0] != other[0] or one[1] > other[1]:
                return False
        former = node
    return True


def _sorted_runs(before: str, after: str) -> str:
    """`after` with each run of adjacent imports that are all new in order: `import` first, then by name."""
    text, rows = Text(after), new_rows(before, after)
    found = [node for node in nodes(text.text) if isinstance(node, ast.Import | ast.ImportFrom)]
    alone = {node.lineno for node in found if node.lineno == node.end_lineno and text.stands_alone(node)}
    alone |= {node.lineno for node in found if text.lines[node.lineno - 1].rstrip().endswith(_MARK)}
    lines, run = list(text.lines), list[int]()
    for row in (*sorted(alone & rows), 0):
        if run and (row != run[-1] + 1 or indent_of(lines[row - 1]) != indent_of(lines[run[-1] - 1])):
            ordered = sorted((lines[one - 1] for one in run), key=_order)
            lines[run[0] - 1 : run[-1]] = ordered
            run = []
        run.append(row)
    return "".join(lines)


def _order(line: str) -> tuple[bool, bool, str]:
    name = line.split()[1]
    return (
        name.partition(".")[0] not in sys.stdlib_module_names,
        line.lstrip().startswith("from"),
        name.lower(),
    )


def _imports(text: str) -> list[str]:
    return [ast.dump(node) for node in nodes(text) if isinstance(node, ast.Import | ast.ImportFrom)]


def _rest(text: str) -> str:
    """What a text is besides its imports."""
    return ast.dump(_WithoutImports().visit(ast.parse(text)))


class _WithoutImports(ast.NodeTransformer):
    """Takes imports out of a tree."""

    def visit_Import(self, _node: ast.Import) -> None:
        """Drop it."""

    def visit_ImportFrom(self, _node: ast.ImportFrom) -> None:
        """Drop it."""
