"""The contents of the report as plain values; docs/report.md describes their JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from tpulint.finding import Effort, Finding, Severity

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of findings of each severity."""

    blocks: int = 0
    slow: int = 0
    cosmetic: int = 0

    @property
    def total(self) -> int:
        """The number of all findings."""
        return self.blocks + self.slow + self.cosmetic


def count_by_severity(findings: Iterable[Finding]) -> Counts:
    """The number of findings of each severity."""
    severities = [one.severity for one in findings]
    return Counts(*(severities.count(severity) for severity in Severity))


@dataclass(frozen=True, slots=True)
class RemainingFindings:
    """The findings of a rule that are left after all fixes.

    Args:
        code: the code of the rule.
        name: the name of the rule.
        severity: `blocks`, `slow` or `cosmetic`.
        effort: `minutes`, `hours` or `days` for each finding.
        message: the message of the first finding.
        places: the location of each finding, `path:line` relative to the project.
        url: the documentation of the rule.
    """

    code: str
    name: str
    severity: str
    effort: str
    message: str
    places: tuple[str, ...]
    url: str = ""


@dataclass(frozen=True, slots=True)
class Package:
    """A package that needs an NVIDIA GPU, its replacement, and the files that import it."""

    name: str
    instead: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """A program of the project, with all files of the project that it imports.

    Args:
        path: its file, relative to the project.
        files: the number of these files.
        findings: the findings in these files.
        fixable: the number of findings that `fix --unsafe-fixes` removes.
        by_hand: the findings that are left then.
        packages: the packages for NVIDIA GPUs that its files import.
        chips: the chips that the fixed program uses: `all chips of the host` or `one chip`.
        is_migrated: whether the program already enters the torchax environment.
    """

    path: str
    files: int
    findings: Counts
    fixable: int
    by_hand: tuple[RemainingFindings, ...]
    packages: tuple[str, ...]
    chips: str
    is_migrated: bool


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """A file with findings; `left` is the number that fixes do not remove."""

    path: str
    findings: Counts
    left: int


@dataclass(frozen=True, slots=True)
class Overview:
    """The whole report.

    Args:
        project: the name of the folder.
        version: the version of tpulint.
        files: the number of files that were analyzed.
        findings: the number of findings.
        entry_points: the programs.
        modules: the files with findings.
        fixed: for each rule whose fixes apply: its code, its name, and the number of fixes.
        by_hand: the findings that are left after these fixes.
        packages: the packages for NVIDIA GPUs that the project imports.
        unanalyzed: the files that were not analyzed, each with the reason.
        evidence: the verifications in results of `tpulint verify --output-format json`.
        device: the devices that executed them.
    """

    project: str
    version: str
    files: int
    findings: Counts
    entry_points: tuple[EntryPoint, ...]
    modules: tuple[ModuleRow, ...]
    fixed: tuple[tuple[str, str, int], ...]
    by_hand: tuple[RemainingFindings, ...]
    packages: tuple[Package, ...]
    unanalyzed: tuple[tuple[str, str], ...] = ()
    evidence: tuple[dict[str, Any], ...] = field(default_factory=tuple)
    device: str = ""

    @property
    def effort(self) -> dict[str, int]:
        """The number of findings that are left, by effort."""
        return {
            effort: sum(len(one.places) for one in self.by_hand if one.effort == effort) for effort in Effort
        }

    @property
    def fixable(self) -> int:
        """The number of fixes."""
        return sum(count for _, _, count in self.fixed)


def as_json(overview: Overview) -> dict[str, Any]:
    """The report as JSON values; see docs/report.md."""
    return {"schema_version": SCHEMA_VERSION, **asdict(overview)}
