"""Where one process does its share: files in, facts out; project in, findings out.

Everything here is a function of its arguments; the desk only keeps parsed files at hand between the
two questions that are asked about each, within a budget of memory.
"""

from __future__ import annotations

import ast
import os
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

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
from tpulint.rules_api.rule import OWN_PREFIXES, Handler
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

    `errors` are those of the file, or of the rules that failed in it.
    `reads` are the questions that the rules asked about the project, `answers` is a digest of its answers.
    """

    findings: tuple[Finding, ...] = ()
    errors: tuple[FileError, ...] = ()
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
        failed: dict[str, RuleError] = {}
        rules()  # loaded once, at the cost of no file
        recorded = RecordedProject(self._intact(project))
        try:
            with budget(self._seconds):
                if module is None or module.source.encode(module.source.text) != unit.data:
                    module = parsed(unit)
                module.enter(recorded.as_project())
                findings = _kept(module, everything_found(module, found, failed))
        except (SyntaxError, SourceError) as error:
            return Verdict(errors=(FileError(unit.path, str(error)),))
        except RecursionError:
            return Verdict(errors=(FileError(unit.path, "nested too deeply to be analyzed"),))
        except OverBudget:
            self._interrupted = project, project.apart(project.modules)
            kept = _kept(module, found) if module is not None else ()
            # Fixes that belong together may not all be there.
            kept = (*(replace(finding, fix=None) for finding in kept), self._cut_off(unit))
            return Verdict(kept, _errors(unit, failed))
        module.release()
        if failed:
            return Verdict(findings, _errors(unit, failed))
        if self._answers is None or self._answers.project is not project:
            self._answers = Answers(project)
        return Verdict(findings, (), recorded.reads, self._answers.digest_of(recorded.answers))

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
    """A rule that failed; the text says which, where and why."""


def _errors(unit: Unit, failed: Mapping[str, RuleError]) -> tuple[FileError, ...]:
    return tuple(FileError(unit.path, str(error), code) for code, error in failed.items())


def parsed(unit: Unit) -> Module:
    """A file, parsed; what `Source.decode` and `Module` raise is the caller's."""
    if unit.path.endswith(".ipynb"):  # whose text is much like an expression of Python's
        raise SourceError("a notebook, not analyzed; make a script of it with `jupyter nbconvert`")
    return Module(Source.decode(unit.path, unit.data), unit.module_path)


def _kept(module: Module, found: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings that no comment suppresses, in the order of a report."""
    suppressions = module.source.suppressions
    kept = (finding for finding in found if not suppressions or not suppressed(finding, suppressions))
    if module.project.keeps_gpu:
        kept = (replace(finding, fix=two_way(module, finding)) for finding in kept)
    return tuple(sorted(kept, key=lambda finding: finding.sort_key))


def everything_found(
    module: Module,
    found: dict[Finding, None] | None = None,
    failed: dict[str, RuleError] | None = None,
) -> dict[Finding, None]:
    """What all rules find in a file, whether a comment suppresses it or not.

    Code for CUDA that has code for torchax beside it concerns none of them.

    Args:
        module: the file.
        found: is filled while rules run, so that it has what they found until an interruption.
        failed: is filled with the rules that fail, by their codes; nothing else that they find counts.

    Raises:
        RuleError: when a rule fails, unless there is `failed`.
    """
    found = {} if found is None else found
    failures = {} if failed is None else failed
    target = module.project.target
    for rule, handler in concerned(module):
        if rule.code in failures or target not in rule.targets:
            continue
        try:
            for match in matched(rule, handler, module):
                if not handler.traced or module.trace_path(match.scope) is not None:
                    found.update(dict.fromkeys(asked(rule, handler, match, module)))
        except RuleError as error:
            if failed is None:
                raise
            failures[rule.code] = error
    spared = list(apart(module)) if found else []
    return {
        f: None
        for f in found
        if f.code not in failures and not any(s.start <= f.span.start and f.span.end <= s.end for s in spared)
    }


def matched(rule: Rule, handler: Handler, module: Module) -> Iterator[Match]:
    """The nodes that a handler wants to see, traced or not.

    Raises:
        RuleError: when a pattern or a condition of the handler fails.
    """
    try:
        yield from candidates(module, handler)
    except RecursionError:
        raise
    except Exception as error:
        raise RuleError(failure(rule, None, error)) from error


def asked(rule: Rule, handler: Handler, match: Match, module: Module) -> list[Finding]:
    """What a handler finds at a node; where the runtime handles it, only what has a fix.

    Raises:
        RuleError: when it fails.
    """
    ctx = Context(rule, module, match.scope)
    try:
        given = handler.check(match.given, ctx)
        if not hasattr(given, "__iter__"):
            name, wrong = handler.check.__name__, type(given).__name__
            raise TypeError(f"`{name}` returned {wrong}, but is to be a generator of findings")
        found: list[Any] = list(given)
        for one in found:
            if not isinstance(one, Finding):
                name, wrong = handler.check.__name__, type(one).__name__
                raise TypeError(f"`{name}` yielded {wrong}, but is to yield `ctx.finding(...)`")
    except RecursionError:
        raise
    except Exception as error:
        raise RuleError(failure(rule, match.node, error)) from error
    if (
        handler.handled
        and any(one.fix is None for one in found)
        and ctx.program.runtime_handles(handler.handled)
    ):
        return [one for one in found if one.fix is not None]
    return found


def failure(rule: Rule, node: ast.AST | None, error: Exception) -> str:
    """What is reported of a rule that failed: the line that it looked at, and that of the rule itself."""
    internal = "internal error: " if rule.code.startswith(OWN_PREFIXES) else ""
    place = f" at line {node.lineno}" if isinstance(node, ast.expr | ast.stmt) else ""
    path = getattr(sys.modules.get(rule.module), "__file__", None)
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename == path]
    raised = f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
    return f"{internal}rule {rule.code} failed{place}: {type(error).__name__}: {error}{raised}"


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
