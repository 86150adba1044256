"""Findings as JSON, with the keys and the counting from 1 that ruff's users know."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tpulint.finding import Edit, Edits, Finding, Fix, Location, Related


def render(findings: Sequence[Finding], edits: Edits) -> str:
    """A list with an object for each finding."""
    return json.dumps([as_object(finding, edits) for finding in findings], indent=2) + "\n"


def as_object(finding: Finding, edits: Edits) -> Mapping[str, object]:
    """One finding in plain JSON values."""
    return {
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "severity": finding.severity.value,
        "filename": finding.path,
        "location": _location(finding.location),
        "end_location": _location(finding.end_location),
        "fix": None if finding.fix is None else _fix(finding.fix, edits.get((finding.path, finding.fix), ())),
        "related": [_related(step) for step in finding.related],
        "url": finding.url,
    }


def _location(location: Location) -> Mapping[str, int]:
    return {"row": location.row, "column": location.column}


def _fix(fix: Fix, edits: tuple[Edit, ...]) -> Mapping[str, object]:
    return {
        "title": fix.title,
        "applicability": fix.applicability.value,
        "edits": [_edit(edit) for edit in edits],
    }


def _edit(edit: Edit) -> Mapping[str, object]:
    return {
        "location": _location(edit.location),
        "end_location": _location(edit.end_location),
        "content": edit.content,
    }


def _related(step: Related) -> Mapping[str, object]:
    return {"filename": step.path, "location": _location(step.location), "message": step.message}
