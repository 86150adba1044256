"""docs/data/evidence.json and docs/evidence.md: what happened when the fixture cases were executed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

DATA = Path("docs/data/evidence.json")
PAGE = Path("docs/evidence.md")
_PACKAGES = ("torch", "torchvision", "torchax", "jax", "libtpu")
_REFERENCE = "reference"
#: The outcomes of code on torchax, the gravest first, and how a table calls several of them.
_OUTCOMES = {
    "crashes": "crash",
    "raises": "raise",
    "differs": "differ",
    "host": "stay on the host",
    "hangs": "do not end",
    "narrowed": "equal in 32 bits",
    "equal": "equal",
}
_HEAD = """\
<!-- Written by `python -m tpulint.dev render-docs` from docs/data/evidence.json. -->

# Evidence

Each rule has fixture cases: code as it is written for CUDA, the code after `tpulint fix`, and a script that
runs both.
This page summarizes what happened when all of them were executed, with {versions}.

**{verified} of {cases} cases are verified**, {failed} failed, and {not_run} were not run.

A case is verified if everything that it claims happened:

1. The original runs in plain PyTorch on the CPU. Its result is the reference.
2. The original runs on torchax, eagerly and, if it is meant to be traced, under `jax_jit`.
   It fails in the way that the rule describes, or, in cases that must not be reported, gives the same result.
3. The fixed code runs on torchax, eagerly and under `jax_jit`, and gives the result of the reference.
4. If it is meant to be traced, the fixed code is compiled by the real TPU compiler (libtpu), without a TPU.

No TPU was used: everything but the compilation ran on a CPU.

All outcomes, with the numbers of operations and the bytes of memory that the compiler reports, are in
[data/evidence.json](data/evidence.json).
`tpulint verify RULE` executes the cases of a rule again and shows every message; `make evidence` executes all
cases and updates this page.

## By rule

*Original* and *fixed* count the cases by what the code does on torchax.
*Equal in 32 bits* means equal, except that 64-bit numbers became 32-bit ones, which is torchax's default.

"""


def data(report: str) -> str:
    """The content of the data file for a report of `tpulint verify --output-format json`."""
    rows: list[dict[str, Any]] = json.loads(report)
    rows.sort(key=lambda row: (row["code"] or "~", row["rule"], row["case"]))
    cases = []
    for (rule, case), group in groupby(rows, key=lambda row: (row["rule"], row["case"])):
        own = list(group)
        entry: dict[str, Any] = {"code": own[0]["code"], "rule": rule, "case": case, "state": _state(own)}
        for row in own:
            entry.setdefault(row["side"], {})[row["stage"]] = row["happened"]
        cases.append(json.dumps(entry))
    versions = json.dumps({name: version(name) for name in _PACKAGES})
    return f'{{\n"versions": {versions},\n"cases": [\n' + ",\n".join(cases) + "\n]\n}\n"


def render(root: Path) -> str:
    """The page: counts, a row for each rule, and the cases that were not run."""
    read = json.loads((root / DATA).read_text(encoding="utf-8"))
    cases: list[dict[str, Any]] = read["cases"]
    states = Counter(case["state"] for case in cases)
    head = _HEAD.format(
        versions=", ".join(f"{name} {number}" for name, number in read["versions"].items()),
        cases=len(cases),
        verified=states["verified"],
        failed=states["failed"],
        not_run=states["not run"],
    )
    columns = ["rule", "cases", "verified", "original", "fixed", "compiled for TPU"]
    parts = [head, _line(columns), _line(["---", "---:", "---:", "---", "---", "---:"])]
    for (code, rule), group in groupby(cases, key=lambda case: (case["code"], case["rule"])):
        parts.append(_line(_row(code, rule, list(group))))
    missing = [case for case in cases if case["state"] == "not run"]
    if missing:
        parts += ["\n## Not run\n\n", _line(["case", "why"]), _line(["---"] * 2)]
        parts += [_line([_link(case), _reason(case)]) for case in missing]
    failed = [case for case in cases if case["state"] == "failed"]
    if failed:
        parts += ["\n## Failed\n\n", *(f"- {_link(case)}\n" for case in failed)]
    return "".join(parts)


def _row(code: str, rule: str, cases: Sequence[Mapping[str, Any]]) -> list[str]:
    name = rule.replace("_", "-")
    title = f"[{code} {name}](rules/{name}.md)" if code else "whole programs"
    verified = sum(case["state"] == "verified" for case in cases)
    compiled = sum(any(stage.startswith("tpu") for stage in _code(case)) for case in cases)
    counts = [_counts(case.get(side, {}) for case in cases) for side in ("original", "fixed")]
    return [title, str(len(cases)), str(verified), *counts, str(compiled or "")]


def _code(case: Mapping[str, Any]) -> Mapping[str, str]:
    """What happened to the code that a user ends up with: the fixed code, if there is any."""
    stages: Mapping[str, str] = case.get("fixed") or case.get("original") or {}
    return {stage: happened for stage, happened in stages.items() if happened.startswith("compiles")} or {}


def _counts(sides: Iterable[Mapping[str, str]]) -> str:
    """How many cases come to each outcome, each counted by its gravest."""
    found: Counter[str] = Counter()
    for side in sides:
        words = {
            happened.partition(":")[0].split()[0]
            for stage, happened in side.items()
            if stage != _REFERENCE and not stage.startswith("tpu")
        }
        gravest = next((word for word in _OUTCOMES if word in words), None)
        if gravest is not None:
            found[gravest] += 1
    return ", ".join(f"{found[word]} {text}" for word, text in _OUTCOMES.items() if found[word])


def _reason(case: Mapping[str, Any]) -> str:
    stages = (case.get(side, {}) for side in ("original", "fixed"))
    reasons = [happened for side in stages for happened in side.values() if happened != "runs"]
    return reasons[0] if reasons else ""


def _link(case: Mapping[str, Any]) -> str:
    return f"[{case['rule']}/{case['case']}](../fixtures/{case['rule']}/{case['case']})"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |\n"


def _state(case: Iterable[dict[str, Any]]) -> str:
    states = {row["state"] for row in case}
    return "failed" if "failed" in states else "verified" if states == {"verified"} else "not run"
