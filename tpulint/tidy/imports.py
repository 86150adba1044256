"""Imports that fixes added, changed or left without a use."""

from __future__ import annotations

import ast
import sys

from tpulint.knowledge.runtime import ENABLE, IMPORTED_BY_ENABLE
from tpulint.model.syntax.imports import orphaned_imports, split_imports
from tpulint.model.syntax.undefined import undefined_names
from tpulint.tidy.text import Text, indent_of, new_rows, parted

#: Says to linters that a module is imported for what its import does.
_MARK = "  # noqa: F401"


def without_orphans(before: str, after: str) -> str:
    """`after` without the imports whose last use the fixes took away."""
    for row, shrunk in reversed(orphaned_imports(before, after)):
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
    for first, last, statement in reversed(split_imports(before, after)):
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
    used = {node.id for node in ast.walk(text.tree) if isinstance(node, ast.Name)}
    lines = list(text.lines)
    enables = any(map(_enables, text.tree.body))
    for node in ast.walk(text.tree):
        if not isinstance(node, ast.Import) or node.lineno not in rows or len(node.names) > 1:
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
    for node in ast.parse(text).body:
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
    nodes = [node for node in ast.walk(text.tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    alone = {node.lineno for node in nodes if node.lineno == node.end_lineno and text.stands_alone(node)}
    alone |= {node.lineno for node in nodes if text.lines[node.lineno - 1].rstrip().endswith(_MARK)}
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
    nodes = ast.walk(ast.parse(text))
    return [ast.dump(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def _rest(text: str) -> str:
    """What a text is besides its imports."""
    return ast.dump(_WithoutImports().visit(ast.parse(text)))


class _WithoutImports(ast.NodeTransformer):
    """Takes imports out of a tree."""

    def visit_Import(self, _node: ast.Import) -> None:
        """Drop it."""

    def visit_ImportFrom(self, _node: ast.ImportFrom) -> None:
        """Drop it."""
