"""Findings as SARIF 2.1.0, for code-scanning services and editors."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from tpulint import __version__
from tpulint.finding import Applicability, Edit, Edits, FileError, Finding, Fix, Location, Severity

if TYPE_CHECKING:
    from tpulint.rules_api import Rule

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
_HOME = "https://github.com/tpulint/tpulint"
_BASE = "SRCROOT"
_LEVELS = {Severity.BLOCKS: "error", Severity.SLOW: "warning", Severity.COSMETIC: "note"}


def render(
    findings: Sequence[Finding], errors: Sequence[FileError], rules: Sequence[Rule], edits: Edits
) -> str:
    """One run, with the rules that it found something for and the files that it could not read."""
    described = {rule.code: rule for rule in rules}
    codes = sorted({finding.code for finding in findings})
    names = {finding.code: finding.name for finding in findings}
    run = {
        "tool": {
            "driver": {
                "name": "tpulint",
                "version": __version__,
                "informationUri": _HOME,
                "rules": [_rule(code, names[code], described.get(code)) for code in codes],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_BASE: {"uri": Path.cwd().as_uri().rstrip("/") + "/"}},
        "invocations": [
            {
                "executionSuccessful": not errors,
                "toolExecutionNotifications": [
                    {
                        "level": "error",
                        "message": {"text": error.message},
                        "locations": [{"physicalLocation": {"artifactLocation": _artifact(error.path)}}],
                    }
                    for error in errors
                ],
            }
        ],
        "results": [_result(finding, codes.index(finding.code), edits) for finding in findings],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(code: str, name: str, rule: Rule | None) -> Mapping[str, object]:
    described: dict[str, object] = {"id": code, "name": name}
    if rule is not None:
        described["shortDescription"] = {"text": rule.summary}
        described["help"] = {"text": rule.doc, "markdown": rule.doc}
        if rule.url:
            described["helpUri"] = rule.url
    described["defaultConfiguration"] = {"level": _LEVELS[rule.severity if rule else Severity.BLOCKS]}
    return described


def _result(finding: Finding, index: int, edits: Edits) -> Mapping[str, object]:
    result: dict[str, object] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": _artifact(finding.path),
                    "region": _region(finding.location, finding.end_location),
                }
            }
        ],
    }
    if finding.related:
        result["relatedLocations"] = [
            {
                "id": number,
                "physicalLocation": {
                    "artifactLocation": _artifact(step.path),
                    "region": {"startLine": step.location.row, "startColumn": step.location.column},
                },
                "message": {"text": step.message},
            }
            for number, step in enumerate(finding.related, 1)
        ]
    if finding.fix is not None and finding.fix.applicability is not Applicability.DISPLAY:
        replacements = edits.get((finding.path, finding.fix))
        if replacements:
            result["fixes"] = [_fix(finding.path, finding.fix, replacements)]
    return result


def _fix(path: str, fix: Fix, edits: tuple[Edit, ...]) -> Mapping[str, object]:
    return {
        "description": {"text": f"{fix.title} ({fix.applicability.value})"},
        "artifactChanges": [
            {
                "artifactLocation": _artifact(path),
                "replacements": [
                    {
                        "deletedRegion": _region(edit.location, edit.end_location),
                        "insertedContent": {"text": edit.content},
                    }
                    for edit in edits
                ],
            }
        ],
    }


def _region(start: Location, end: Location) -> Mapping[str, int]:
    return {
        "startLine": start.row,
        "startColumn": start.column,
        "endLine": end.row,
        "endColumn": end.column,
    }


def _artifact(path: str) -> Mapping[str, str]:
    """Relative to the current folder where possible, as code-scanning services want it."""
    folder = os.getcwd().rstrip(os.sep) + os.sep
    if path.startswith(folder):
        return {"uri": _quoted(path[len(folder) :]), "uriBaseId": _BASE}
    if os.path.isabs(path):
        return {"uri": "file://" + _quoted(path)}
    return {"uri": _quoted(path)}


def _quoted(path: str) -> str:
    return quote(os.fsencode(path.replace(os.sep, "/")))
