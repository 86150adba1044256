"""Findings as GitHub workflow commands, which become annotations on a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from tpulint.finding import Finding, Severity
from tpulint.report.paths import shown

_LEVELS = {Severity.BLOCKS: "error", Severity.SLOW: "warning", Severity.COSMETIC: "notice"}


def render(findings: Sequence[Finding]) -> str:
    """One command for each finding: `::error` if it blocks, `::warning` or `::notice` if not."""
    return "".join(_command(finding) + "\n" for finding in findings)


def _command(finding: Finding) -> str:
    start, end = finding.location, finding.end_location
    properties = [
        ("title", f"tpulint ({finding.code})"),
        ("file", finding.path),
        ("line", str(start.row)),
        ("endLine", str(end.row)),
    ]
    if start.row == end.row:
        # GitHub refuses columns on an annotation of several lines.
        properties[3:3] = [("col", str(start.column))]
        properties.append(("endColumn", str(end.column)))
    listed = ",".join(f"{key}={_property(value)}" for key, value in properties)
    text = f"{shown(finding.path)}:{start.row}:{start.column}: {finding.code} {finding.message}"
    return f"::{_LEVELS[finding.severity]} {listed}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
