"""One run: files in, findings out."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tpulint.engine.cache import Cache, FileCache, MemoryCache, key, tool_digest
from tpulint.engine.desk import Desk, Summary, Unit, Verdict
from tpulint.engine.places import places
from tpulint.finding import FileError, Finding
from tpulint.model.project import ProjectFacts, link
from tpulint.model.visibility import visible_digests
from tpulint.settings import Settings

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
    contents: dict[str, bytes] = {}
    errors: list[FileError] = []
    for file in files:
        path = str(file)
        try:
            with open(path, "rb") as stream:
                contents[path] = stream.read()
        except OSError as error:
            errors.append(FileError(path, f"cannot be read: {error.strerror or error}"))
    if stdin is not None:
        contents[stdin[0]] = stdin[1]
    return as_units(contents), errors


def as_units(contents: Mapping[str, bytes]) -> dict[str, Unit]:
    """Files as units of one project, each with its place in it."""
    found = places(contents)
    return {path: Unit(path, data, found[path]) for path, data in contents.items()}


def open_cache(settings: Settings) -> Cache:
    """The cache of a project: `.tpulint_cache` in its root unless the settings say otherwise."""
    return FileCache(settings.cache_dir or settings.root / ".tpulint_cache")


def analyse_units(
    units: Mapping[str, Unit], settings: Settings, *, jobs: int | None = None, cache: Cache | None = None
) -> Analysis:
    """Check files whose bytes are at hand; see `analyse`."""
    store = cache if cache is not None else MemoryCache()
    tool = tool_digest()
    summary_keys = {
        path: key(tool, "facts", path, repr(unit.place), unit.data) for path, unit in units.items()
    }
    known = store.get(summary_keys.values())
    summaries: dict[str, Summary] = {p: known[k] for p, k in summary_keys.items() if k in known}
    fresh = [unit for path, unit in units.items() if path not in summaries]
    with _desks(list(units.values()), fresh, jobs) as desks:
        new = dict(desks.summarise(fresh))
        summaries |= new
        store.put({summary_keys[path]: summary for path, summary in new.items()})
        facts = [summaries[path].facts for path in sorted(summaries)]
        project = link((module for module in facts if module is not None), settings.trace_roots)
        digests = visible_digests(project)
        verdict_keys = {}
        for path in units:
            module = summaries[path].facts
            if module is not None:
                verdict_keys[path] = key(tool, "findings", path, units[path].data, digests[module.name])
        known = store.get(verdict_keys.values())
        verdicts: dict[str, Verdict] = {p: known[k] for p, k in verdict_keys.items() if k in known}
        judged = dict(desks.judge([units[path] for path in verdict_keys if path not in verdicts], project))
        verdicts |= judged
        store.put({verdict_keys[path]: verdict for path, verdict in judged.items() if verdict.error is None})
    findings: list[Finding] = []
    errors: list[FileError] = []
    for path in sorted(units):
        summary, verdict = summaries[path], verdicts.get(path, Verdict())
        findings += [summary.finding] if summary.finding is not None else []
        findings += verdict.findings
        errors += [error for error in (summary.error, verdict.error) if error is not None]
    wanted = [
        finding
        for finding in findings
        if settings.selects(finding.code, finding.name)
        and not settings.ignored_in(finding.path, finding.code, finding.name)
    ]
    return Analysis(wanted, errors, len(units))


class _Here:
    """All the work in this process."""

    def __init__(self) -> None:
        self._desk = Desk()

    def summarise(self, units: Sequence[Unit]) -> Iterator[tuple[str, Summary]]:
        for unit in units:
            yield unit.path, self._desk.summarise(unit)

    def judge(self, units: Sequence[Unit], project: ProjectFacts) -> Iterator[tuple[str, Verdict]]:
        for unit in units:
            yield unit.path, self._desk.judge(unit, project)


class _There:
    """The work in several processes, started when the first file is handed over."""

    def __init__(self, units: Sequence[Unit], jobs: int) -> None:
        from tpulint.engine.workers import Team

        self.team = Team(units, jobs)

    def summarise(self, units: Sequence[Unit]) -> Iterator[tuple[str, Summary]]:
        for path, answer in self.team.ask("summarise", frozenset(unit.path for unit in units)):
            assert isinstance(answer, Summary)
            yield path, answer

    def judge(self, units: Sequence[Unit], project: ProjectFacts) -> Iterator[tuple[str, Verdict]]:
        for path, answer in self.team.ask("judge", frozenset(unit.path for unit in units), project):
            assert isinstance(answer, Verdict)
            yield path, answer


@contextmanager
def _desks(units: Sequence[Unit], fresh: Sequence[Unit], jobs: int | None) -> Iterator[_Here | _There]:
    """Desks here or in other processes, whichever is sooner done."""
    wanted = jobs if jobs is not None else (os.cpu_count() or 1)
    size = sum(len(unit.data) for unit in fresh)
    if wanted > 1 and len(units) > 1 and (size > PARALLEL_BYTES or (jobs is not None and fresh)):
        there = _There(units, min(wanted, len(units)))
        with there.team:
            yield there
        return
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield _Here()
    finally:
        if enabled:
            gc.enable()
