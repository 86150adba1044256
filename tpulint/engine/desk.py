"""Where one process does its share: files in, facts out; project in, findings out.

Everything here is a function of its arguments; the desk only keeps parsed files at hand between the
two questions that are asked about each, within a budget of memory.
"""

from __future__ import annotations

import ast
import sys
import warnings
from dataclasses import dataclass, replace

from tpulint.engine.candidates import candidates, concerned
from tpulint.finding import FileError, Finding, Span
from tpulint.model.devices.two_way import apart, two_way
from tpulint.model.module import Module, Place
from tpulint.model.names.scopes import Scope
from tpulint.model.project.facts import ModuleFacts
from tpulint.model.project.project import ProjectFacts
from tpulint.model.project.reads import Answers, Read, RecordedProject
from tpulint.registry import SYNTAX_ERROR, former_names
from tpulint.rule import Context, Handler, Rule
from tpulint.source import Source, SourceError

#: Source text, in bytes, whose parsed form a process keeps between summarising and judging.
#: A parsed file takes some 35 times its text (measured on timm: 194 MB for 5.5 MB of text).
RETAIN_BYTES = 2_000_000
#: Enough for sums of some thousand terms; deeper expressions are reported as such.
RECURSION_LIMIT = 12_000


@dataclass(frozen=True, slots=True)
class Unit:
    """One file to analyse.

    `path` is absolute, or what standard input is called. `place` says under which name it is imported.
    """

    path: str
    data: bytes
    place: Place


@dataclass(frozen=True, slots=True)
class Summary:
    """What summarising a file gave: its facts, or a finding that it does not parse, or an error."""

    facts: ModuleFacts | None = None
    finding: Finding | None = None
    error: FileError | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What judging a file gave: the findings of all rules, suppressed ones left out.

    `reads` are the questions that the rules asked about the project, `answers` is a digest of its answers.
    """

    findings: tuple[Finding, ...] = ()
    error: FileError | None = None
    reads: tuple[Read, ...] = ()
    answers: bytes = b""


class Desk:
    """One process's share of the work."""

    def __init__(self) -> None:
        self._kept: dict[str, Module] = {}
        self._kept_bytes = 0
        self._judged: list[ast.Module] = []
        self._answers: Answers | None = None
        sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))
        warnings.simplefilter("ignore", SyntaxWarning)  # of the code under analysis
        warnings.simplefilter("ignore", DeprecationWarning)

    def summarise(self, unit: Unit) -> Summary:
        """Parse a file and draw its facts."""
        try:
            module = parsed(unit)
            facts = module.facts()
        except SyntaxError as error:
            return Summary(finding=_syntax_finding(unit, error))
        except SourceError as error:
            return Summary(error=FileError(unit.path, str(error)))
        except RecursionError:
            return Summary(error=FileError(unit.path, "nested too deeply to be analyzed"))
        if self._kept_bytes + len(unit.data) <= RETAIN_BYTES:
            self._kept[unit.path] = module
            self._kept_bytes += len(unit.data)
        else:
            module.release()
        return Summary(facts)

    def judge(self, unit: Unit, project: ProjectFacts) -> Verdict:
        """Run all rules over a file that parses."""
        module = self._kept.pop(unit.path, None)
        if module is not None:
            self._judged.append(module.source.tree)  # whose room is taken anyway, and freeing takes time
        try:
            if module is None or module.source.encode(module.source.text) != unit.data:
                module = parsed(unit)
            recorded = RecordedProject(project)
            module.enter(recorded.as_project())
            findings = _findings(module)
        except (SyntaxError, SourceError) as error:
            return Verdict(error=FileError(unit.path, str(error)))
        except RecursionError:
            return Verdict(error=FileError(unit.path, "nested too deeply to be analyzed"))
        except RuleError as error:
            return Verdict(error=FileError(unit.path, str(error)))
        module.release()
        if self._answers is None or self._answers.project is not project:
            self._answers = Answers(project)
        return Verdict(findings, None, recorded.reads, self._answers.digest_of(recorded.answers))


class RuleError(Exception):
    """A rule that failed; an internal error."""


def parsed(unit: Unit) -> Module:
    """A file, parsed; what `Source.decode` and `Module` raise is the caller's."""
    return Module(Source.decode(unit.path, unit.data), unit.place)


def _findings(module: Module) -> tuple[Finding, ...]:
    found = everything_found(module)
    suppressions = module.source.suppressions
    kept = (finding for finding in found if not suppressions or not suppressed(finding, suppressions))
    if module.project.keeps_gpu:
        kept = (replace(finding, fix=two_way(module, finding)) for finding in kept)
    return tuple(sorted(kept, key=lambda finding: finding.sort_key))


def everything_found(module: Module) -> dict[Finding, None]:
    """What all rules find in a file, whether a comment suppresses it or not.

    Code for CUDA that has code for torchax beside it concerns none of them.
    """
    found: dict[Finding, None] = {}
    for rule, handler in concerned(module):
        for node, scope in candidates(module, handler):
            if not handler.traced or module.trace_path(scope) is not None:
                found.update(dict.fromkeys(asked(rule, handler, node, scope, module)))
    spared = list(apart(module)) if found else []
    return {
        f: None for f in found if not any(s.start <= f.span.start and f.span.end <= s.end for s in spared)
    }


def asked(rule: Rule, handler: Handler, node: ast.AST, scope: Scope, module: Module) -> list[Finding]:
    """What a handler finds at a place; where traced code may need values, only what has a fix.

    Raises:
        RuleError: when it fails.
    """
    return reported(found_by(rule, handler, node, scope, module), handler, scope, module)


def reported(found: list[Finding], handler: Handler, scope: Scope, module: Module) -> list[Finding]:
    """What is reported of a handler's findings: where traced code may need values, only what has a fix."""
    spares = found and handler.traced and module.may_need_values(scope)
    return [one for one in found if one.fix is not None] if spares else found


def found_by(rule: Rule, handler: Handler, node: ast.AST, scope: Scope, module: Module) -> list[Finding]:
    """What a handler finds at a place; raises as `asked` does."""
    try:
        return list(handler.check(node, Context(rule, module, scope)))
    except RecursionError:
        raise
    except Exception as error:
        raise RuleError(_failure(rule, node, error)) from error


def _failure(rule: Rule, node: ast.AST, error: Exception) -> str:
    place = f" at line {node.lineno}" if isinstance(node, ast.expr | ast.stmt) else ""
    return f"internal error: rule {rule.code} failed{place}: {type(error).__name__}: {error}"


def suppressed(finding: Finding, suppressions: dict[int, frozenset[str] | None]) -> bool:
    """Whether a comment on the first or last row of a finding silences it."""
    for row in (finding.location.row, finding.end_location.row):
        if row in suppressions:
            named = suppressions[row]
            if named is None or finding.code in named or finding.name in named:
                return True
            if finding.name in map(former_names().get, named):
                return True
    return False


def _syntax_finding(unit: Unit, error: SyntaxError) -> Finding:
    source = Source.decode(unit.path, unit.data)
    row = min(max(error.lineno or 1, 1), len(source.line_starts))
    line = source.line(row)
    start = source.line_starts[row - 1] + min(max((error.offset or 1) - 1, 0), len(line))
    end = max(start, min(start + 1, source.line_starts[row - 1] + len(line)))
    code, name = SYNTAX_ERROR
    message = f"the file is not analyzed: {error.msg}"
    return Finding(
        unit.path, source.location(start), source.location(end), code, name, message, Span(start, end), line
    )
