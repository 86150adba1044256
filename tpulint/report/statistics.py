"""How often each rule found something."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tpulint.finding import Applicability, Finding, Severity
from tpulint.knowledge.runtime import REQUIREMENT
from tpulint.report.paint import Paint
from tpulint.report.paths import shown

_COLUMNS = ("count", *Applicability, *Severity)
_WHY_NOT_ANALYZED = {
    "TPU000": "with a syntax error",
    "TPU002": "over the time limit",
    "TPU003": "for a framework that does not run on TPU",
    "ENV109": "with the code of a notebook",
}
LEGEND = "[*] all have a safe fix, [-] some have a fix, [ ] none has a fix\n"


def render(findings: Sequence[Finding], paint: Paint) -> str:
    """A row for each rule, the most frequent first."""
    rows = _rows(findings)
    width = max((len(str(row["count"])) for row in rows), default=0)
    return "".join(
        f"{row['count']:>{width}}  {paint.code(str(row['code']))}  {paint.good(_mark(row))} {row['name']}"
        f"{paint.dim(_severity(row))}\n"
        for row in rows
    )


def render_json(findings: Sequence[Finding]) -> str:
    """The same as a list of objects, with how many of the findings have a fix of each kind."""
    return json.dumps(_rows(findings), indent=2) + "\n"


def _rows(findings: Sequence[Finding]) -> list[Mapping[str, object]]:
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for finding in findings:
        row = counts.setdefault((finding.code, finding.name), dict.fromkeys(_COLUMNS, 0))
        row["count"] += 1
        row[finding.severity.value] += 1
        if finding.fix is not None:
            row[finding.fix.applicability.value] += 1
    order = sorted(counts, key=lambda key: (-counts[key]["count"], key))
    return [{"code": code, "name": name, **counts[code, name]} for code, name in order]


def _mark(row: Mapping[str, object]) -> str:
    """`[*]` where safe fixes cover every finding, `[-]` where some fix covers some, as in ruff."""
    if row["safe"] == row["count"]:
        return "[*]"
    return "[-]" if row["safe"] or row["unsafe"] else "[ ]"


def _severity(row: Mapping[str, object]) -> str:
    """The severity of findings of which none blocks."""
    lower = [str(one) for one in Severity if row[one]]
    return "" if Severity.BLOCKS in lower else f" ({', '.join(lower)})"


def summary(findings: Sequence[Finding], paint: Paint) -> str:
    """The closing lines of a report: what was found, and how many files were not analyzed."""
    return _found(findings, paint) + _not_analyzed(findings, paint)


def _not_analyzed(findings: Sequence[Finding], paint: Paint) -> str:
    """How many files were not analyzed, and why; "" if all were."""
    counts = {
        why: len({finding.path for finding in findings if finding.code == code})
        for code, why in _WHY_NOT_ANALYZED.items()
    }
    total = sum(counts.values())
    if not total:
        return ""
    reasons = ", ".join(f"{number} {why}" for why, number in counts.items() if number)
    return paint.warn(f"Not analyzed: {_count(total, 'file')} ({reasons})") + "\n"


def _found(findings: Sequence[Finding], paint: Paint) -> str:
    if not findings:
        return paint.good("No findings") + "\n"
    files = len({finding.path for finding in findings})
    text = f"Found {_count(len(findings), 'finding')} in {_count(files, 'file')}{_by_severity(findings)}"
    safe, unsafe = by_safety(findings)
    if safe:
        text += f"; {safe} fixable with `tpulint fix`"
        if unsafe:
            text += f", {unsafe} more with `--unsafe-fixes`"
    elif unsafe:
        text += f"; {unsafe} fixable with `tpulint fix --unsafe-fixes`"
    return paint.bold(text) + "\n"


def _by_severity(findings: Sequence[Finding]) -> str:
    """How many findings there are of each severity, if there are several; "" if all block."""
    counts = {one: sum(finding.severity is one for finding in findings) for one in Severity}
    if counts[Severity.BLOCKS] == len(findings):
        return ""
    words = {Severity.BLOCKS: "blocking", Severity.SLOW: "slow", Severity.COSMETIC: "cosmetic"}
    return f" ({', '.join(f'{number} {words[one]}' for one, number in counts.items() if number)})"


def left(findings: Sequence[Finding]) -> str:
    """The summary of the findings that would remain after the fixes of a diff."""
    text = f"{_count(len(findings), 'finding')} would remain"
    _, unsafe = by_safety(findings)
    return text + (f", {unsafe} of them fixable with `--unsafe-fixes`" if unsafe else "")


def by_safety(findings: Sequence[Finding]) -> tuple[int, int]:
    """How many findings have a safe fix, and how many an unsafe one."""
    kinds = [finding.fix.applicability for finding in findings if finding.fix is not None]
    return kinds.count(Applicability.SAFE), kinds.count(Applicability.UNSAFE)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def applied(
    by_file: Mapping[str, Mapping[str, int]],
    names: Mapping[str, str],
    extended: Sequence[str],
    tests: Sequence[str],
    paint: Paint,
) -> str:
    """What `fix` did: a line for each file, for what it wrote beside them, and for the tests that it left.

    Args:
        by_file: how many findings of each rule were fixed, by file.
        names: the names of the rules by their codes.
        extended: the files to which the runtime was added as a dependency.
        tests: the files with tests that were left alone although they have fixes.
        paint: the colors.
    """
    total = sum(number for counts in by_file.values() for number in counts.values())
    rows = [f"  {shown(path)}: {_rules(counts, names, paint)}\n" for path, counts in sorted(by_file.items())]
    if rows:
        rows.insert(0, paint.good(f"Fixed {_count(total, 'finding')} in {_count(len(rows), 'file')}:") + "\n")
    rows += [f"Added {REQUIREMENT} to {shown(path)}\n" for path in extended]
    if tests:
        some = ", ".join(map(shown, tests[:3])) + (", ..." if len(tests) > 3 else "")
        files = _count(len(tests), "file")
        rows.append(f"Left {files} with tests unchanged ({some}); `--include-tests` fixes them, too\n")
    return "".join(rows)


def _rules(counts: Mapping[str, int], names: Mapping[str, str], paint: Paint) -> str:
    order = sorted(counts, key=lambda code: (-counts[code], code))
    return ", ".join(f"{counts[code]} × {paint.code(code)} {names.get(code, '')}".rstrip() for code in order)
