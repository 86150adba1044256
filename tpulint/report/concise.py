"""One line for each finding."""

from __future__ import annotations

from collections.abc import Sequence

from tpulint.finding import Applicability, Finding
from tpulint.report.full import heading
from tpulint.report.paint import Paint

_MARKS = {Applicability.SAFE: " [fix]", Applicability.UNSAFE: " [unsafe fix]", Applicability.DISPLAY: ""}


def render(findings: Sequence[Finding], paint: Paint) -> str:
    """`path:row:column: CODE name: message`, with a mark where `fix` can help."""
    return "".join(
        heading(finding, paint) + (paint.dim(_MARKS[finding.fix.applicability]) if finding.fix else "") + "\n"
        for finding in findings
    )
