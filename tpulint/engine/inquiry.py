"""One line looked at closely: what is believed of it, what rules say, and why others are silent."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tpulint.engine.candidates import concerned
from tpulint.engine.conditions import Condition, deciding_condition
from tpulint.engine.desk import RuleError, asked, everything_found, matched, parsed, suppressed
from tpulint.engine.run import linked, open_cache, read
from tpulint.engine.shipped import is_shipped
from tpulint.finding import Finding, Location
from tpulint.knowledge.handled import HANDLED
from tpulint.model.belief import Belief, LineBelief, belief_of, line_belief, subjects
from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.settings import Settings
from tpulint.source import SourceError

_UNTRACED = "the rule is about traced code, and no traced code calls this"
_PAIRED = "this code for CUDA has a counterpart for torchax beside it"


class InquiryError(Exception):
    """A line that cannot be looked at; the text says why."""


@dataclass(frozen=True, slots=True)
class Said:
    """A finding on the line, and whether a report of `check` would leave it out, and why."""

    finding: Finding
    suppressed: bool
    deselected: bool


@dataclass(frozen=True, slots=True)
class Silence:
    """A place on the line that a rule looked at, or would have if tracing reached it, and left alone.

    `reason` is the condition that decided, in words, "" if it is not known. `about` are the inferred types of
    the expression that decided, or else of the one on the line and its parts; `by_type` if a type decided.
    `handled` is what the runtime handles, and the tests that show it, if the rule left it to the runtime.
    """

    code: str
    name: str
    location: Location
    reason: str
    by_type: bool = False
    about: tuple[Belief, ...] = ()
    handled: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Inquiry:
    """All that is known of one line."""

    path: str
    row: int
    line: str
    belief: LineBelief
    said: tuple[Said, ...]
    silences: tuple[Silence, ...]


def inquire(path: Path, row: int, files: Sequence[Path], settings: Settings) -> Inquiry:
    """Look at a line of one file, within the project that all the files make.

    Raises:
        InquiryError: for a file that cannot be read or parsed, or that has no such line, and if a rule fails.
    """
    units, errors = read(files, None)
    unit = units.get(str(path))
    if unit is None:
        reason = next(
            (error.message for error in errors if error.path == str(path)), "excluded by the settings"
        )
        raise InquiryError(reason)
    if is_shipped(unit):
        reason = "this file belongs to the runtime torchax-compat"
        raise InquiryError(f"{reason}, so it is not analyzed")
    try:
        module = parsed(unit)
    except SyntaxError as error:
        raise InquiryError(f"the file is not analyzed: {error.msg} (line {error.lineno})") from error
    except SourceError as error:
        raise InquiryError(str(error)) from error
    rows = len(module.source.text.splitlines())
    if not 1 <= row <= rows:
        raise InquiryError(f"there is no line {row}: the file has {rows}")
    module.enter(linked(units, settings, cache=open_cache(settings)))
    try:
        said = tuple(_said(module, row, settings))
        silences = tuple(dict.fromkeys(_silences(module, row, {one.finding.code for one in said})))
    except RuleError as error:
        raise InquiryError(str(error)) from error
    return Inquiry(
        str(path),
        row,
        module.source.line(row),
        line_belief(module, row),
        said,
        silences,
    )


def _said(module: Module, row: int, settings: Settings) -> Iterator[Said]:
    for finding in sorted(everything_found(module), key=lambda finding: finding.sort_key):
        if finding.location.row <= row <= finding.end_location.row:
            selected = settings.selects(finding.code, finding.name, optional=finding.optional)
            ignored = settings.ignored_in(finding.path, finding.code, finding.name)
            hidden = suppressed(finding, module.source.suppressions)
            yield Said(finding, hidden, deselected=ignored or not selected or not settings.reports(finding))


def _silences(module: Module, row: int, speakers: Collection[str]) -> Iterator[Silence]:
    """What rules other than the speakers made of the places on a row."""
    for rule, handler in concerned(module):
        if rule.code in speakers or module.project.target not in rule.targets:
            continue
        for match in matched(rule, handler, module):
            node, scope = match.node, match.scope
            if not isinstance(node, ast.expr | ast.stmt) or node.lineno != row:
                continue
            location = module.source.location(module.source.span(node).start)
            silence = partial(Silence, rule.code, rule.name, location)
            if handler.traced and module.trace_path(scope) is None:
                yield silence(_UNTRACED)
                continue
            found: list[Finding] = []

            def ask() -> None:
                found.extend(asked(rule, handler, match, module))  # noqa: B023

            module.handled.clear()
            condition = deciding_condition(handler, ask)
            handled = tuple((subject, HANDLED[subject].paths) for subject in sorted(module.handled))
            if found:
                yield silence(_PAIRED)
            elif handled:
                yield silence("", handled=handled)
            else:
                by_type = condition.expression is not None and not condition.reason
                yield silence(condition.reason, by_type, _about(module, node, scope, condition))


def _about(module: Module, node: ast.AST, scope: Scope, condition: Condition) -> tuple[Belief, ...]:
    if condition.expression is not None and condition.scope is not None:
        return (belief_of(module, condition.expression, condition.scope),)
    if condition.reason:
        return ()
    parts = [node, *subjects(module, node, scope)]
    return tuple(belief_of(module, part, scope) for part in parts if isinstance(part, ast.expr))
