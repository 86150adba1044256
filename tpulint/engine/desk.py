"""Where one process does its share: files in, facts out; project in, findings out.

Everything here is a function of its arguments; the desk only keeps parsed files at hand between the
two questions that are asked about each, within a budget of memory.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tpulint.engine.budget import OverBudget, budget
from tpulint.engine.candidates import candidates, concerned
from tpulint.engine.matching import Match
from tpulint.finding import FileError, Finding, Span
from tpulint.model.devices.two_way import apart, two_way
from tpulint.model.module import Module
from tpulint.model.project.facts import ModuleFacts
from tpulint.model.project.project import ProjectFacts
from tpulint.model.project.reads import Answers, Read, RecordedProject
from tpulint.model.syntax.parsed_file import ModulePath
from tpulint.registry import CUT_OFF, SYNTAX_ERROR, former_names, rules
from tpulint.rules_api import Context, Rule
from tpulint.rules_api.rule import Handler
from tpulint.source import Source, SourceError

#: Source text, in bytes, whose parsed form a process keeps between summarising and judging.
#: A parsed file takes some 35 times its text (measured on timm: 194 MB for 5.5 MB of text).
RETAIN_BYTES = 2_000_000
#: Enough for sums of some thousand terms; deeper expressions are reported as such.
RECURSION_LIMIT = 12_000


@dataclass(frozen=True, slots=True)
class Unit:
    """One file to analyse.

    `path` is absolute, or what standard input is called. `module_path` says under which name it is imported.
    """

    path: str
    data: bytes
    module_path: ModulePath


@dataclass(frozen=True, slots=True)
class Summary:
    """What summarising a file gave: its facts, or a finding that it does not parse, or an error."""

    facts: ModuleFacts | None = None
    finding: Finding | None = None
    error: FileError | None = None

    @property
    def is_final(self) -> bool:
        """Whether it depends on nothing but the file, as one does not that was cut off."""
        return self.finding is None or self.finding.code != CUT_OFF[0]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What judging a file gave: the findings of all rules, suppressed ones left out.

    `reads` are the questions that the rules asked about the project, `answers` is a digest of its answers.
    """

    findings: tuple[Finding, ...] = ()
    error: FileError | None = None
    reads: tuple[Read, ...] = ()
    answers: bytes = b""

    @property
    def is_final(self) -> bool:
        """Whether it depends on nothing but the file and the answers."""
        return bool(self.answers)


class Desk:
    """One process's share of the work.

    `seconds` is the processor time that each question about a file may take, 0 for any.
    """

    def __init__(self, seconds: float = 0) -> None:
        self._seconds = seconds
        self._kept: dict[str, Module] = {}
        self._kept_bytes = 0
        self._judged: list[ast.Module] = []
        self._answers: Answers | None = None
        self._interrupted: tuple[ProjectFacts | None, ProjectFacts | None] = None, None
        sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))
        warnings.simplefilter("ignore", SyntaxWarning)  # of the code under analysis
        warnings.simplefilter("ignore", DeprecationWarning)

    def summarise(self, unit: Unit) -> Summary:
        """Parse a file and draw its facts."""
        try:
            with budget(self._seconds):
                module = parsed(unit)
                facts = module.facts()
        except SyntaxError as error:
            return Summary(finding=_syntax_finding(unit, error))
        except OverBudget:
            return Summary(finding=self._cut_off(unit))
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
        found: dict[Finding, None] = {}
        rules()  # loaded once, at the cost of no file
        recorded = RecordedProject(self._intact(project))
        try:
            with budget(self._seconds):
                if module is None or module.source.encode(module.source.text) != unit.data:
                    module = parsed(unit)
                module.enter(recorded.as_project())
                findings = _kept(module, everything_found(module, found))
        except (SyntaxError, SourceError) as error:
            return Verdict(error=FileError(unit.path, str(error)))
        except RecursionError:
            return Verdict(error=FileError(unit.path, "nested too deeply to be analyzed"))
        except RuleError as error:
            return Verdict(error=FileError(unit.path, str(error)))
        except OverBudget:
            self._interrupted = project, project.apart(project.modules)
            kept = _kept(module, found) if module is not None else ()
            # Fixes that belong together may not all be there.
            return Verdict((*(replace(finding, fix=None) for finding in kept), self._cut_off(unit)))
        module.release()
        if self._answers is None or self._answers.project is not project:
            self._answers = Answers(project)
        return Verdict(findings, None, recorded.reads, self._answers.digest_of(recorded.answers))

    def _intact(self, project: ProjectFacts) -> ProjectFacts:
        """A project that no interruption has left with half an answer."""
        interrupted, intact = self._interrupted
        return intact if interrupted is project and intact is not None else project

    def _cut_off(self, unit: Unit) -> Finding:
        code, name = CUT_OFF
        message = (
            f"the analysis of this file stopped after {self._seconds:g} s of processor time, so findings may "
            "be missing; the setting `time-limit` changes the limit"
        )
        start = Source.decode(unit.path, unit.data).location(0)
        return Finding(unit.path, start, start, code, name, message, Span(0, 0), "")


class RuleError(Exception):
    """A rule that failed; an internal error."""


def parsed(unit: Unit) -> Module:
    """A file, parsed; what `Source.decode` and `Module` raise is the caller's."""
    return Module(Source.decode(unit.path, unit.data), unit.module_path)


def _kept(module: Module, found: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings that no comment suppresses, in the order of a report."""
    suppressions = module.source.suppressions
    kept = (finding for finding in found if not suppressions or not suppressed(finding, suppressions))
    if module.project.keeps_gpu:
        kept = (replace(finding, fix=two_way(module, finding)) for finding in kept)
    return tuple(sorted(kept, key=lambda finding: finding.sort_key))


def everything_found(module: Module, found: dict[Finding, None] | None = None) -> dict[Finding, None]:
    """What all rules find in a file, whether a comment suppresses it or not.

    Code for CUDA that has code for torchax beside it concerns none of them. `found` is filled while rules
    run, so that it has what they found until an interruption.
    """
    found = {} if found is None else found
    for rule, handler in concerned(module):
        for match in candidates(module, handler):
            if not handler.traced or module.trace_path(match.scope) is not None:
                found.update(dict.fromkeys(asked(rule, handler, match, module)))
    spared = list(apart(module)) if found else []
    return {
        f: None for f in found if not any(s.start <= f.span.start and f.span.end <= s.end for s in spared)
    }


def asked(rule: Rule, handler: Handler, match: Match, module: Module) -> list[Finding]:
    """What a handler finds at a node; where the runtime handles it, only what has a fix.

    Raises:
        RuleError: when it fails.
    """
    ctx = Context(rule, module, match.scope)
    try:
        found = list(handler.check(match.given, ctx))
    except RecursionError:
        raise
    except Exception as error:
        raise RuleError(_failure(rule, match.node, error)) from error
    if (
        handler.handled
        and any(one.fix is None for one in found)
        and ctx.program.runtime_handles(handler.handled)
    ):
        return [one for one in found if one.fix is not None]
    return found


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
