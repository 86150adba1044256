"""A report in the format that was asked for; each format is a module of its own."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from tpulint.finding import Edits, FileError, Finding
from tpulint.report import statistics as counts
from tpulint.report.paint import Paint


def is_text(output_format: str) -> bool:
    """Whether a format is for people to read, with colors and a summary."""
    return output_format in ("full", "concise")


def has_edits(output_format: str) -> bool:
    """Whether a format gives the edits of fixes."""
    return output_format in ("json", "sarif")


def render(
    findings: Sequence[Finding],
    errors: Sequence[FileError],
    output_format: str,
    paint: Paint,
    *,
    edits: Edits | None = None,
    statistics: bool = False,
    summary: bool = True,
) -> str:
    """The text of a report in one of the formats of `--output-format`; `edits` are for those with edits."""
    if statistics and output_format == "json":
        return counts.render_json(findings)
    if output_format == "sarif":
        from tpulint.registry import rules as registered
        from tpulint.report import sarif

        return sarif.render(findings, errors, registered(), edits or {})
    form = import_module(f"tpulint.report.{output_format}")
    if has_edits(output_format):
        return str(form.render(findings, edits or {}))
    if not is_text(output_format):
        return str(form.render(findings))
    closing = counts.summary(findings, paint) if summary and not (errors and not findings) else ""
    if statistics:
        legend = counts.LEGEND if summary and findings else ""
        return f"{counts.render(findings, paint)}{legend}{closing}"
    return str(form.render(findings, paint)) + closing
