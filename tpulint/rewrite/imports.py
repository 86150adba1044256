"""Import statements added to a file, each where isort would put it among those that are there."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import libcst as cst

from tpulint.plan import Import
from tpulint.rewrite.code import BLANK, Reader, Statement, as_statement

#: What no longer stands at the top of a file: scripts that were notebooks import once more further down.
_NOT_AT_THE_TOP = cst.FunctionDef | cst.ClassDef | cst.For | cst.While
_IMPORT = cst.Import | cst.ImportFrom


def with_imports(module: cst.Module, imports: Iterable[Import], reader: Reader) -> cst.Module:
    """A file with imports of one name each, those under a condition after the others.

    `AddImportsVisitor` of LibCST puts a new import after the last one, where isort would not.
    """
    given = list(imports)
    for one in sorted((one for one in given if not one.condition), key=lambda one: _order(one.statement)):
        [statement] = reader.statements(one.statement, "").body
        module = _with_import(module, statement, _order(one.statement), one.ahead_of)
    for one in given:
        if one.condition:
            module = _with_conditional(module, one, reader)
    return module


def _with_import(
    module: cst.Module, added: Statement, order: tuple[bool, str], ahead_of: int | None
) -> cst.Module:
    if ahead_of is not None:
        ahead = [as_statement(line) for line in module.body[: _end(module.body, ahead_of)]]
        after = module.body[len(ahead) :]
        changed = _with_import(module.with_changes(body=ahead), added, order, None)
        return changed.with_changes(body=[*changed.body, *after])
    body = [as_statement(line) for line in module.body]
    standard = _is_standard(added)
    run = _run(body, standard=standard)
    if not run:
        first = next((i for i, line in enumerate(body) if _is_import(line) and not _is_future(line)), None)
        if standard and first is not None:
            return module.with_changes(body=_before(body, first, [added], gap=True))
        return _at_end(module, body, [added])
    before = [i for i in run if _order(_text(body[i])) < order]
    if before:
        return module.with_changes(body=_after(body, before[-1], [added]))
    return module.with_changes(body=_before(body, run[0], [added]))


def _with_conditional(module: cst.Module, one: Import, reader: Reader) -> cst.Module:
    """An import where a condition holds, as the last of those below the imports that are for it."""
    body = [as_statement(line) for line in module.body]
    end = _end(body, one.ahead_of)
    guard = body[end] if end < len(body) else None
    if isinstance(guard, cst.If) and guard.orelse is None and _code(guard.test) == one.condition:
        block = guard.body
        statements = reader.statements(one.statement, "").body
        if isinstance(block, cst.IndentedBlock):
            there = {_text(as_statement(line)) for line in block.body}
            added = [line for line in statements if _text(line) not in there]
            changed = block.with_changes(body=[*block.body, *added])
            return module.with_changes(body=[*body[:end], guard.with_changes(body=changed), *body[end + 1 :]])
    lines = [
        f"if {one.condition}:",
        *(f"{module.default_indent}{line}" for line in one.statement.splitlines()),
    ]
    [conditional] = reader.statements(module.default_newline.join(lines), "").body
    spaced = conditional.with_changes(leading_lines=[BLANK])
    return module.with_changes(body=[*body[:end], spaced, *body[end:]])


def _at_end(module: cst.Module, body: list[Statement], added: list[Statement]) -> cst.Module:
    end = _end(body)
    if end and end <= len(body):
        if _shares_line(body[end - 1]) and _is_import(body[end - 1]):
            return module.with_changes(body=_before(body, end - 1, added))
        return module.with_changes(body=_after(body, end - 1, added))
    if not body:
        return module.with_changes(body=added)
    return module.with_changes(body=_before(body, 0, added))


def _end(body: Sequence[cst.CSTNode], before: int | None = None) -> int:
    end = 0
    statements = 0
    for number, line in enumerate(body):
        if isinstance(line, _NOT_AT_THE_TOP) or (before is not None and statements >= before):
            break
        statements += len(line.body) if isinstance(line, cst.SimpleStatementLine) else 1
        if _is_import(line) or (not end and _is_docstring(line)):
            end = number + 1
    return end


def _before(
    body: Sequence[Statement], place: int, added: list[Statement], *, gap: bool = False
) -> list[Statement]:
    line = body[place]
    first, *others = added
    above = list(line.leading_lines)
    if place or any(one.comment is not None for one in above):
        first = first.with_changes(leading_lines=above)
        line = line.with_changes(leading_lines=[])
    if gap:
        line = line.with_changes(leading_lines=[BLANK, *line.leading_lines])
    return [*body[:place], first, *others, line, *body[place + 1 :]]


def _after(body: Sequence[Statement], place: int, added: list[Statement]) -> list[Statement]:
    """Statements after a line; before it if other code follows on it, which may need what is imported."""
    if _shares_line(body[place]) and _is_import(body[place]):
        return _before(body, place, added)
    return [*body[: place + 1], *added, *body[place + 1 :]]


def _run(body: Sequence[Statement], *, standard: bool) -> list[int]:
    """The run of adjacent imports that has the standard library's, or torch's, in it."""
    run: list[int] = []
    found = False
    for number, line in enumerate([*body, None]):
        is_import = line is not None and _is_import(line)
        joins = (
            is_import
            and line is not None
            and (not run or not line.leading_lines)
            and run[-1:]
            in (
                [],
                [number - 1],
            )
        )
        if not joins:
            if found:
                return run
            run = []
        if line is not None and is_import and not _is_future(line):
            run.append(number)
            found = found or any(
                (head in sys.stdlib_module_names) if standard else head == "torch" for head in _heads(line)
            )
    return []


def _is_import(line: cst.CSTNode) -> bool:
    return isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], _IMPORT)


def _shares_line(line: Statement) -> bool:
    return isinstance(line, cst.SimpleStatementLine) and any(
        not isinstance(one, _IMPORT) for one in line.body
    )


def _is_docstring(line: cst.CSTNode) -> bool:
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    return isinstance(small, cst.Expr) and isinstance(
        small.value, cst.BaseString | cst.BaseNumber | cst.Ellipsis
    )


def _is_future(line: Statement) -> bool:
    return _text(line).startswith("from __future__ ")


def _heads(line: Statement) -> list[str]:
    assert isinstance(line, cst.SimpleStatementLine)
    heads: list[str] = []
    for small in line.body:
        if isinstance(small, cst.Import):
            heads += [_code(alias.name).partition(".")[0] for alias in small.names]
        elif isinstance(small, cst.ImportFrom) and small.module is not None and not small.relative:
            heads.append(_code(small.module).partition(".")[0])
    return heads


def _is_standard(line: Statement) -> bool:
    return any(head in sys.stdlib_module_names for head in _heads(line))


def _order(text: str) -> tuple[bool, str]:
    return text.startswith("from"), text.split()[1].lower()


def _text(line: Statement) -> str:
    """The code of a line's first statement."""
    return _code(line.body[0]) if isinstance(line, cst.SimpleStatementLine) else ""


def _code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node).strip(" ;")
