"""Traces the original abstractly, and compares the failing lines with the findings of `check`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tpulint.finding import Finding
from tpulint.invocation import asked_for
from tpulint.proof.processes import ProcessResult
from tpulint.proof.project import Project
from tpulint.proof.results import LineState, Shapes, Trace, TracedLine
from tpulint.proof.session import ON_CPU, Session, read_failure
from tpulint.proof.targets import Target
from tpulint.proof.workers.tracing import Request

_ABOUT_TRACES = ("TPU3", "TPU4", "TPU5", "TPU63")
"""The prefixes of the codes of rules about code that fails under trace."""


def trace_module(session: Session, target: Target, project: Project, workspace: Path) -> Trace:
    """Trace the original of a module abstractly."""
    answer, failure = workspace / "trace.answer", workspace / "trace.failure"
    for path in (answer, failure):
        path.unlink(missing_ok=True)
    request = Request(
        path=str(project.in_original(target.file)),
        expression=target.expression,
        inputs=list(target.inputs),
        root=str(project.original),
        answer=str(answer),
        failure=str(failure),
    )
    folder = project.in_original(project.working_folder(target.file))
    process = session.run_worker("tracing", request, folder, project, variables=ON_CPU)
    return read_trace(answer, failure, process, project)


def read_trace(answer: Path, failure: Path, process: ProcessResult, project: Project) -> Trace:
    """The trace that a worker wrote, compared with the findings of `check`."""
    failed = read_failure(failure, "original")
    if failed is not None:
        return Trace("not run", reason=f"{failed.type}: {failed.message}")
    if not answer.exists():
        return Trace("not run", reason=process.error or "no module was called")
    return compared_with_findings(json.loads(answer.read_text(encoding="utf-8")), project)


def compared_with_findings(found: Mapping[str, Any], project: Project) -> Trace:
    """The failures of a trace, with or without a finding, and the findings without a failure."""
    findings = _findings(project.original)
    lines = sorted(_lines(found, findings), key=lambda line: (line.path, line.line))
    shapes = found.get("shapes")
    return Trace(
        "stopped" if found["stopped"] else "complete",
        tuple(lines),
        found["stopped"],
        Shapes(**{**shapes, "shapes": tuple(shapes["shapes"])}) if shapes else None,
    )


def _lines(found: Mapping[str, Any], findings: Mapping[str, Sequence[Finding]]) -> Iterator[TracedLine]:
    used: set[Finding] = set()
    for hazard in found["hazards"]:
        locations = [
            (hazard["path"], hazard["line"]),
            *([tuple(hazard["origin"])] if hazard["origin"] else []),
        ]
        reports = [one for path, line in locations for one in findings.get(path, ()) if _covers(one, line)]
        used.update(reports)
        about = [one for one in reports if one.code.startswith(_ABOUT_TRACES)] or reports
        yield TracedLine(
            LineState.CONFIRMED if reports else LineState.MISSED,
            hazard["path"],
            hazard["line"],
            hazard["hazard"],
            hazard["message"],
            about[0].code if about else "",
            hazard["source"],
        )
    for path, numbers in found["lines"].items():
        executed = set(numbers)
        for one in findings.get(path, ()):
            if one in used or not one.code.startswith(_ABOUT_TRACES):
                continue
            rows = range(one.location.row, one.end_location.row + 1)
            state = LineState.PASSED if executed.intersection(rows) else LineState.NOT_REACHED
            yield TracedLine(state, path, one.location.row, message=one.message, code=one.code)


def _covers(finding: Finding, line: int) -> bool:
    return finding.location.row <= line <= finding.end_location.row


def _findings(folder: Path) -> dict[str, list[Finding]]:
    """The findings of `check`, by the path of the file relative to the folder."""
    from tpulint.engine.run import analyse

    given = asked_for((str(folder),))
    found: dict[str, list[Finding]] = {}
    for finding in analyse(given.files, given.settings, jobs=None, cache=False).findings:
        found.setdefault(str(Path(finding.path).relative_to(folder)), []).append(finding)
    return found
