"""Collects the findings of a project, the fixes, the programs and their files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tpulint import __version__
from tpulint.engine import project_files
from tpulint.engine.cache import Cache, MemoryCache
from tpulint.engine.files import contents_of
from tpulint.engine.fix import fix_units
from tpulint.engine.run import analyse_units, linked, open_cache, read
from tpulint.finding import Finding
from tpulint.invocation import Given, UsageError
from tpulint.knowledge.gpu_kernels import PACKAGES
from tpulint.model.project.import_graph import is_program
from tpulint.model.project.project import ProjectFacts
from tpulint.overview.content import (
    EntryPoint,
    ModuleRow,
    Overview,
    Package,
    RemainingFindings,
    count_by_severity,
)
from tpulint.registry import rules
from tpulint.settings import Settings

_SHOWN = ("target", "state", "reason", "compared")
"""The keys of each result of `tpulint verify` that the page shows."""


def collect(
    given: Given, evidence: Sequence[Path] = (), *, jobs: int | None = None, cache: bool = True
) -> Overview:
    """The report about files; no file is written, and no code of the project is executed.

    Args:
        given: the files and settings.
        evidence: files with results of `tpulint verify --output-format json`.
        jobs: worker processes, by default one for each processor.
        cache: whether to use the cache folder.

    Raises:
        UsageError: a file with results cannot be read.
    """
    settings = given.settings
    verifications, device = _evidence(evidence)
    units, errors = read(given.files, given.stdin)
    store: Cache = open_cache(settings) if cache else MemoryCache()
    analysis = analyse_units(units, settings, jobs=jobs, cache=store)
    fixed = fix_units(units, settings, jobs=jobs, cache=store, unsafe=True, named=frozenset(units))
    contents, unread = contents_of(given.project_files)
    project_analysis = project_files.analyse(contents, settings)
    project_fixed = project_files.fix(contents, settings, unsafe=True)
    findings = sorted([*analysis.findings, *project_analysis.findings], key=lambda one: one.sort_key)
    remaining = [*fixed.remaining, *project_fixed.findings]
    project = linked(units, settings, jobs=jobs, cache=store)
    shown = _DisplayPaths(given, settings)
    applied = Counter[str]()
    for counts in (*fixed.applied.values(), *project_fixed.applied.values()):
        applied.update(counts)
    names = {rule.code: rule.name for rule in rules()}
    return Overview(
        project=shown.root.name,
        version=__version__,
        files=len(units) + len(contents),
        findings=count_by_severity(findings),
        entry_points=tuple(_entry_points(project, findings, remaining, shown)),
        modules=tuple(_modules(findings, remaining, shown)),
        fixed=tuple((code, names.get(code, ""), count) for code, count in applied.most_common()),
        by_hand=tuple(_by_hand(remaining, shown)),
        packages=tuple(_packages(project, project.modules, shown)),
        unanalyzed=tuple(
            (shown(error.path), error.message)
            for error in sorted(
                [*errors, *analysis.errors, *unread, *project_analysis.errors], key=lambda e: e.path
            )
        ),
        evidence=verifications,
        device=device,
    )


class _DisplayPaths:
    """The paths that the report shows, which are relative to the folder that is analyzed."""

    def __init__(self, given: Given, settings: Settings) -> None:
        folders = [Path(path) for path in given.named]
        only = folders[0] if len(folders) == 1 else settings.root
        self.root = only if only.is_dir() else only.parent

    def __call__(self, path: str) -> str:
        try:
            return Path(path).relative_to(self.root).as_posix()
        except ValueError:
            return path


def _entry_points(
    project: ProjectFacts, findings: Sequence[Finding], remaining: Sequence[Finding], shown: _DisplayPaths
) -> Iterable[EntryPoint]:
    """The programs that no other module imports, sorted by their number of findings."""
    imported = {name for imports in project.imports.values() for name in imports}
    programs = [name for name, facts in project.modules.items() if is_program(facts)]
    entries = [name for name in programs if name not in imported] or programs
    found = []
    for name in entries:
        members = {facts.path: facts for facts in project.program(name)}
        own = [one for one in findings if one.path in members]
        left = [one for one in remaining if one.path in members]
        is_migrated = name in project.programs.entering
        if not own and not is_migrated:
            continue
        packages = _packages(project, [facts.name for facts in members.values()], shown)
        found.append(
            EntryPoint(
                path=shown(project.modules[name].path),
                files=len(members),
                findings=count_by_severity(own),
                fixable=max(len(own) - len(left), 0),
                by_hand=tuple(_by_hand(left, shown)),
                packages=tuple(one.name for one in packages),
                chips="all chips of the host" if name in project.programs.ranked else "one chip",
                is_migrated=is_migrated,
            )
        )
    return sorted(found, key=lambda one: (-one.findings.blocks, -one.findings.total, one.path))


def _modules(
    findings: Sequence[Finding], remaining: Sequence[Finding], shown: _DisplayPaths
) -> Iterable[ModuleRow]:
    """The files with findings, sorted by the number of findings that block."""
    by_path: dict[str, list[Finding]] = {}
    for one in findings:
        by_path.setdefault(one.path, []).append(one)
    left = Counter(one.path for one in remaining)
    rows = [ModuleRow(shown(path), count_by_severity(own), left[path]) for path, own in by_path.items()]
    return sorted(rows, key=lambda row: (-row.findings.blocks, -row.findings.total, row.path))


def _by_hand(remaining: Sequence[Finding], shown: _DisplayPaths) -> Iterable[RemainingFindings]:
    """The remaining findings by rule, sorted by severity and then by effort."""
    known = {rule.code: rule for rule in rules()}
    by_rule: dict[str, list[Finding]] = {}
    for one in remaining:
        by_rule.setdefault(one.code, []).append(one)
    found = []
    for code, own in by_rule.items():
        first = min(own, key=lambda one: (one.severity.rank, one.sort_key))
        effort = known[code].effort.value if code in known else "hours"
        locations = tuple(f"{shown(one.path)}:{one.location.row}" for one in own)
        found.append(
            RemainingFindings(
                code, first.name, first.severity.value, effort, first.message, locations, first.url or ""
            )
        )
    severities, efforts = ["blocks", "slow", "cosmetic"], ["days", "hours", "minutes"]
    return sorted(
        found, key=lambda one: (severities.index(one.severity), efforts.index(one.effort), one.code)
    )


def _packages(project: ProjectFacts, names: Iterable[str], shown: _DisplayPaths) -> list[Package]:
    """The packages for NVIDIA GPUs that modules import, with the files that import them."""
    importing: dict[str, set[str]] = {}
    for name in names:
        facts = project.modules[name]
        for imported in facts.imports:
            package = imported.partition(".")[0]
            if package in PACKAGES and package not in project.modules:
                importing.setdefault(package, set()).add(shown(facts.path))
    return [Package(one, PACKAGES[one], tuple(sorted(files))) for one, files in sorted(importing.items())]


def _evidence(paths: Sequence[Path]) -> tuple[tuple[dict[str, Any], ...], str]:
    """The verifications in files with results, and the devices that executed them."""
    found: list[dict[str, Any]] = []
    devices: list[str] = []
    for path in paths:
        try:
            document: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
            for one in document["verifications"]:
                if any(key not in one for key in _SHOWN):
                    raise KeyError
                found.append(one)
            devices.append(str(document["device"]))
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
        except (ValueError, KeyError, TypeError):
            reason = "has no results of `tpulint verify --output-format json`"
            raise UsageError(f"{path}: {reason}") from None
    return tuple(found), ", ".join(dict.fromkeys(devices))
