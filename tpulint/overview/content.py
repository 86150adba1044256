"""What the report says, as plain values; docs/report.md describes them as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from tpulint.finding import Effort, Finding, Severity

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Counts:
    """How many findings there are of each severity."""

    blocks: int = 0
    slow: int = 0
    cosmetic: int = 0

    @property
    def total(self) -> int:
        """All findings."""
        return self.blocks + self.slow + self.cosmetic


def counted(findings: Iterable[Finding]) -> Counts:
    """The findings by severity."""
    severities = [one.severity for one in findings]
    return Counts(*(severities.count(severity) for severity in Severity))


@dataclass(frozen=True, slots=True)
class ByHand:
    """Findings of a rule that are left after all fixes.

    Args:
        places: `path:line` of each, relative to the project.
        message: the message of the first.
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
    """A package that needs an NVIDIA GPU: what takes its place, and the files that import it."""

    name: str
    instead: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """A program of the project, with all files of the project that it imports.

    Args:
        path: its file, relative to the project.
        files: how many files belong to it.
        findings: the findings in these files.
        fixable: how many of them `fix --unsafe-fixes` removes.
        by_hand: what is left then.
        packages: the packages for NVIDIA GPUs that its files import.
        chips: `all chips of the host`, or `one chip`: what the fixed program uses.
        is_migrated: whether it enters the torchax environment already.
    """

    path: str
    files: int
    findings: Counts
    fixable: int
    by_hand: tuple[ByHand, ...]
    packages: tuple[str, ...]
    chips: str
    is_migrated: bool


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """A file with findings; `left` are those that fixes do not remove."""

    path: str
    findings: Counts
    left: int


@dataclass(frozen=True, slots=True)
class Overview:
    """The whole report.

    Args:
        project: the name of the folder.
        version: that of tpulint.
        files: how many files were analyzed.
        findings: all findings.
        fixed: for each rule whose fixes apply: its code, its name, and how often.
        by_hand: what is left then.
        unanalyzed: the files that were not analyzed, each with the reason.
        evidence: results of `tpulint verify --output-format json`: its verifications.
        device: what executed these.
    """

    project: str
    version: str
    files: int
    findings: Counts
    entry_points: tuple[EntryPoint, ...]
    modules: tuple[ModuleRow, ...]
    fixed: tuple[tuple[str, str, int], ...]
    by_hand: tuple[ByHand, ...]
    packages: tuple[Package, ...]
    unanalyzed: tuple[tuple[str, str], ...] = ()
    evidence: tuple[dict[str, Any], ...] = field(default_factory=tuple)
    device: str = ""

    @property
    def effort(self) -> dict[str, int]:
        """How many findings are left for each effort."""
        return {
            effort: sum(len(one.places) for one in self.by_hand if one.effort == effort) for effort in Effort
        }

    @property
    def fixable(self) -> int:
        """How many fixes apply."""
        return sum(count for _, _, count in self.fixed)


def as_json(overview: Overview) -> dict[str, Any]:
    """The report in the documented form."""
    return {"schema_version": SCHEMA_VERSION, **asdict(overview)}
