"""One run: files in, findings out."""

from __future__ import annotations

import gc
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tpulint.digest import digest
from tpulint.engine.cache import Cache, FileCache, tool_digest
from tpulint.engine.desk import Desk, Summary, Unit, Verdict
from tpulint.engine.files import contents_of
from tpulint.engine.module_paths import module_paths
from tpulint.engine.shipped import users_own
from tpulint.finding import FileError, Finding
from tpulint.knowledge.runtime import is_of_runtime
from tpulint.model.project.project import ProjectFacts
from tpulint.model.project.reads import Answers
from tpulint.model.project.trace_path import Certainty
from tpulint.model.tracing.reach import link
from tpulint.registry import rules
from tpulint.runtime.presence import is_in_project, is_installed
from tpulint.settings import Settings

if TYPE_CHECKING:
    from tpulint.engine.workers import Team

#: Less source than this, in bytes, is done sooner in one process.
PARALLEL_BYTES = 400_000


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a run found; `findings` are in the order of a report and filtered by the settings."""

    findings: list[Finding] = field(default_factory=list)
    errors: list[FileError] = field(default_factory=list)
    files: int = 0


def analyse(
    files: Sequence[Path],
    settings: Settings,
    *,
    jobs: int | None = None,
    cache: bool = True,
    stdin: tuple[str, bytes] | None = None,
) -> Analysis:
    """Check files as one project.

    Args:
        files: absolute paths.
        settings: what to report.
        jobs: worker processes, by default one for each processor.
        cache: whether results are kept in, and taken from, the cache folder.
        stdin: name and content of one more file.
    """
    units, errors = read(files, stdin)
    found = analyse_units(units, settings, jobs=jobs, cache=open_cache(settings) if cache else None)
    return Analysis(
        found.findings, sorted([*errors, *found.errors], key=lambda e: e.path), len(units) + len(errors)
    )


def read(files: Sequence[Path], stdin: tuple[str, bytes] | None) -> tuple[dict[str, Unit], list[FileError]]:
    """The files' bytes, and those that cannot be read; `stdin` is one more file, with its name."""
    contents, errors = contents_of(files)
    if stdin is not None:
        contents[stdin[0]] = stdin[1]
    return as_units(contents), errors


def as_units(contents: Mapping[str, bytes]) -> dict[str, Unit]:
    """Files as units of one project, each with its place in it."""
    found = module_paths(contents)
    return {path: Unit(path, data, found[path]) for path, data in contents.items()}


def open_cache(settings: Settings) -> Cache:
    """The cache of a project: `.tpulint_cache` in its root unless the settings say otherwise."""
    return FileCache(settings.cache_dir or settings.root / ".tpulint_cache")


def analyse_units(
    units: Mapping[str, Unit],
    settings: Settings,
    *,
    jobs: int | None = None,
    cache: Cache | None = None,
    only: Collection[str] | None = None,
) -> Analysis:
    """Check files whose bytes are at hand; see `analyse`.

    `only` restricts the findings to those of some files, judged within the project of all.
    Files that fixes wrote are no part of the project: their imports count, as those of a library would.
    """
    given, units = units, users_own(units)
    with _Desks(list(units.values()), jobs, settings.time_limit) as desks:
        summaries = _summaries(units, desks, cache)
        project = _linked(summaries, settings)
        asked = units if only is None else [path for path in only if path in units]
        names = {path: facts.name for path in asked if (facts := summaries[path].facts) is not None}
        verdicts = _verdicts(units, names, project, desks, cache)
    findings: list[Finding] = []
    errors: list[FileError] = []
    for path in sorted(units):
        summary, verdict = summaries[path], verdicts.get(path, Verdict())
        if summary.finding is not None and (only is None or path in only):
            findings.append(summary.finding)
        findings += verdict.findings
        errors += [summary.error] if summary.error is not None else []
        errors += [error for error in verdict.errors if not error.code or _counts(error, settings)]
    failed = {error.path for error in errors}
    wanted = [
        # Fixes that belong together may not all be there where a rule failed.
        replace(finding, fix=None) if finding.path in failed else finding
        for finding in findings
        if settings.selects(finding.code, finding.name, optional=finding.optional)
        and not settings.ignored_in(finding.path, finding.code, finding.name)
        and settings.reports(finding)
    ]
    return Analysis(wanted, errors, len(given))


def _counts(error: FileError, settings: Settings) -> bool:
    """Whether the rule that failed is one that the settings select for the file."""
    rule = next(one for one in rules() if one.code == error.code)
    selected = settings.selects(rule.code, rule.name, optional=rule.optional)
    return selected and not settings.ignored_in(error.path, rule.code, rule.name)


def linked(
    units: Mapping[str, Unit], settings: Settings, *, jobs: int | None = None, cache: Cache | None = None
) -> ProjectFacts:
    """What files say as one project; those that do not parse, and those that fixes wrote, say nothing."""
    units = users_own(units)
    with _Desks(list(units.values()), jobs, settings.time_limit) as desks:
        return _linked(_summaries(units, desks, cache), settings)


def _finds_runtime(project: ProjectFacts, settings: Settings) -> bool:
    importing = [one.path for one in project.modules.values() if any(map(is_of_runtime, one.imports))]
    if settings.runtime_is_installed is None and is_installed():
        return True
    return is_in_project(importing, settings.root)


def _summaries(units: Mapping[str, Unit], desks: _Desks, cache: Cache | None) -> dict[str, Summary]:
    if cache is None:
        return dict(desks.summarise(list(units.values())))
    tool = tool_digest()
    keys = {
        path: digest(tool, "facts", path, repr(unit.module_path), unit.data) for path, unit in units.items()
    }
    known = cache.get(keys.values())
    summaries: dict[str, Summary] = {path: known[k] for path, k in keys.items() if k in known}
    new = dict(desks.summarise([unit for path, unit in units.items() if path not in summaries]))
    cache.put({keys[path]: summary for path, summary in new.items() if summary.is_final})
    return summaries | new


def _verdicts(
    units: Mapping[str, Unit],
    names: Mapping[str, str],
    project: ProjectFacts,
    desks: _Desks,
    cache: Cache | None,
) -> dict[str, Verdict]:
    """What is found in some files, given with the names of their modules."""
    if cache is None:
        return dict(desks.judge([units[path] for path in names], project))
    tool, answers = tool_digest(), Answers(project)
    keys = {p: digest(tool, "findings", p, repr(units[p].module_path), units[p].data) for p in names}
    known = cache.get(keys.values())
    verdicts: dict[str, Verdict] = {
        path: verdict
        for path, key in keys.items()
        if (verdict := known.get(key)) is not None and answers.digest(verdict.reads) == verdict.answers
    }
    judged = dict(desks.judge([units[path] for path in names if path not in verdicts], project))
    cache.put({keys[path]: verdict for path, verdict in judged.items() if verdict.is_final})
    return verdicts | judged


def _linked(summaries: Mapping[str, Summary], settings: Settings) -> ProjectFacts:
    facts = (summaries[path].facts for path in sorted(summaries))
    modules = (module for module in facts if module is not None)
    project = link(modules, settings.trace_roots, Certainty[settings.traced.upper()])
    project.keeps_gpu = settings.keep_gpu
    project.target = settings.target
    if project.uses_runtime and not settings.runtime_is_installed:
        project.finds_runtime = _finds_runtime(project, settings)
    project.environment = settings.environment
    project.sharding = settings.sharding, settings.sharding_devices
    return project


class _Desks:
    """Desks here or in other processes, whichever is sooner done; use as a context manager."""

    def __init__(self, units: Sequence[Unit], jobs: int | None, seconds: float) -> None:
        self._units, self._seconds = units, seconds
        self._forced = jobs is not None
        self._jobs = min(jobs if jobs is not None else (os.cpu_count() or 1), len(units))
        self._here: Desk | None = None
        self._team: Team | None = None

    def __enter__(self) -> _Desks:
        self._collecting = gc.isenabled()
        gc.disable()  # parsed files are large and free of cycles; walking them again and again is not
        return self

    def __exit__(self, *_: object) -> None:
        if self._team is not None:
            self._team.stop()
        if self._collecting:
            gc.enable()

    def summarise(self, units: Sequence[Unit]) -> Iterator[tuple[str, Summary]]:
        team = self._team_for(units)
        if team is None:
            self._here = self._here or Desk(self._seconds)
            yield from ((unit.path, self._here.summarise(unit)) for unit in units)
            return
        for path, answer in team.ask("summarise", frozenset(unit.path for unit in units)):
            assert isinstance(answer, Summary)
            yield path, answer

    def judge(self, units: Sequence[Unit], project: ProjectFacts) -> Iterator[tuple[str, Verdict]]:
        team = self._team_for(units)
        if team is None:
            self._here = self._here or Desk(self._seconds)
            yield from ((unit.path, self._here.judge(unit, project)) for unit in units)
            return
        for path, answer in team.ask("judge", frozenset(unit.path for unit in units), project):
            assert isinstance(answer, Verdict)
            yield path, answer

    def _team_for(self, units: Sequence[Unit]) -> Team | None:
        """The processes, started when there is enough to do for them; None for none."""
        enough = bool(units) and (self._forced or sum(len(unit.data) for unit in units) > PARALLEL_BYTES)
        if self._team is None and self._jobs > 1 and enough:
            from tpulint.engine.workers import Team

            self._team = Team(self._units, self._jobs, self._seconds)
        return self._team
