"""The report for people: each finding with its line, a caret, the fix and the chain that leads to it."""

from __future__ import annotations

from collections.abc import Sequence

from tpulint.finding import Applicability, Finding, Severity
from tpulint.report.excerpt import excerpt
from tpulint.report.paint import Paint
from tpulint.report.paths import shown

_SAFETY = {
    Applicability.SAFE: "safe fix",
    Applicability.UNSAFE: "unsafe fix: `--unsafe-fixes`",
    Applicability.DISPLAY: "shown only",
}


def render(findings: Sequence[Finding], paint: Paint) -> str:
    """All findings, a blank line after each."""
    return "".join(_finding(finding, paint) + "\n" for finding in findings)


def _finding(finding: Finding, paint: Paint) -> str:
    row = str(finding.location.row)
    gutter = " " * len(row)
    bar = paint.frame("|")
    one_row = finding.end_location.row == finding.location.row
    view = excerpt(
        finding.source_line, finding.location.column, finding.end_location.column if one_row else None
    )
    lines = [
        heading(finding, paint),
        f"{gutter} {bar}",
        f"{paint.frame(row)} {bar} {view.line}".rstrip(),
        f"{gutter} {bar} {paint.code(view.underline)}",
    ]
    if finding.fix is not None:
        safety = _SAFETY[finding.fix.applicability]
        lines.append(f"{gutter} {paint.frame('=')} {paint.good('help')}: {finding.fix.title} ({safety})")
    for number, step in enumerate(finding.related, 1):
        place = f"{shown(step.path)}:{step.location.row}:{step.location.column}"
        count = f"{number}. " if len(finding.related) > 1 else ""
        lines.append(f"{gutter} {paint.frame('=')} {paint.dim('note')}: {count}{place}: {step.message}")
    return "\n".join(lines) + "\n"


def heading(finding: Finding, paint: Paint) -> str:
    """`path:row:column: CODE name: message`, the whole finding on one line.

    A finding that does not block has its severity behind the name.
    """
    place = finding.location
    severity = "" if finding.severity is Severity.BLOCKS else paint.dim(f" ({finding.severity})")
    return (
        f"{paint.bold(shown(finding.path))}{paint.frame(':')}{place.row}{paint.frame(':')}{place.column}"
        f"{paint.frame(':')} {paint.code(finding.code)} {finding.name}{severity}: {finding.message}"
    )
