"""docs/data/evidence.json and docs/evidence.md: what happened when the fixture cases were executed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

from tpulint.evidence import records
from tpulint.evidence.environments import ENVIRONMENTS, Environment

DATA = Path("docs/data/evidence.json")
PAGE = Path("docs/evidence.md")
_PACKAGES = ("torch", "torchvision", "torchax", "jax", "libtpu")
_REFERENCE = "reference"
_LONGEST = 120
#: Where packages are installed, in messages that name their files.
_INSTALLED = re.compile(r"/[^\s()]*/site-packages/")
#: The outcomes of code on torchax, the gravest first, and how a table calls several of them.
_OUTCOMES = {
    "crashes": "crash",
    "raises": "raise",
    "differs": "differ",
    "host": "stay on the CPU",
    "hangs": "do not end",
    "narrowed": "equal in 32 bits",
    "equal": "equal",
}
_HEAD = """\
<!-- Written by `python -m tpulint.dev render-docs` from docs/data/evidence.json. -->

# Evidence

Each rule of tpulint has *fixture cases*.
A fixture case is a folder with code as it is written for CUDA (the *original*), the code after `tpulint fix`
(the *fixed code*), and a script that runs both.
This page summarizes what happened when all fixture cases were executed.
The versions were {versions}.

**{verified} of {cases} cases are verified**, {failed} failed, and {not_run} were not run.

A fixture case is verified if the following four steps have the results that the case claims:

1. The original is executed in plain PyTorch on the CPU.
   The result of this step is the *reference*.
2. The original is executed on torchax, one operation at a time (eagerly).
   If the original is code that JAX has to trace, it is also executed under `jax_jit`.
   The original must fail in the way that the rule describes.
   In a case that the rule must not report, the original must give the same result as the reference.
3. The fixed code is executed on torchax in the same ways, and must give the same result as the reference.
4. If JAX has to trace the fixed code, the TPU compiler (libtpu) must compile the fixed code.

No TPU was used.
The TPU compiler works without a TPU, and all other steps ran on a CPU.

[data/evidence.json](data/evidence.json) has the outcomes of all steps, the numbers of operations, and the
bytes of memory that the TPU compiler reports.
`tpulint verify-rules RULE` executes the cases of a rule again and shows all messages.
`make evidence` executes all cases and updates this page.

## By rule

The columns *original on torchax* and *fixed on torchax* count the cases by what their code does on torchax:

| word | what the code does on torchax |
| --- | --- |
| crash | The process crashes. |
| raise | The code raises an error. |
| differ | The code gives a different result than PyTorch, without an error. |
| stay on the CPU | The code computes nothing on torchax: all tensors stay in CPU memory. |
| do not end | The code was stopped after a time limit. |
| equal in 32 bits | The result is the same as in PyTorch, except that torchax uses 32-bit dtypes instead of \
64-bit dtypes, as it does by default. |
| equal | The result is the same as in PyTorch. |

If a case was executed in several ways with different outcomes, the case counts for the outcome that comes
first in the table above.
The numbers in the two columns can add up to less than the number in the column *cases*, because some cases
have no fixed code, and some cases were not run.
The column *compiled for TPU* counts the cases in which the TPU compiler compiled code.

"""
_NOT_RUN = """
## Not run

The column *why* has the reason that the script of the case (`run.py`) gives.
In these reasons, *the page* is the documentation page of the rule.

"""

_ENVIRONMENT = """
## {title}

{count} fixture cases cannot be executed beside torch and torchax, or are not about them.
`{command}` executes them in the environment `{name}`, a fresh process for each side, and writes
[evidence-{name}.json](../fixtures/evidence-{name}.json).
{verified} of them are verified: the original does what the case claims, and the fixed code gives the values
of the original, or those that the case expects.
{not_run} were not executed, for the reason given.
The other figures of this page do not count these cases.

"""


def data(report: str) -> str:
    """The content of the data file for a report of `tpulint verify-rules --output-format json`."""
    rows: list[dict[str, Any]] = [row for row in json.loads(report) if not row.get("environment")]
    rows.sort(key=lambda row: (row["code"] or "~", row["rule"], row["case"]))
    cases = []
    for (rule, case), group in groupby(rows, key=lambda row: (row["rule"], row["case"])):
        own = list(group)
        entry: dict[str, Any] = {"code": own[0]["code"], "rule": rule, "case": case, "state": _state(own)}
        for row in own:
            entry.setdefault(row["side"], {})[row["stage"]] = _INSTALLED.sub("", row["happened"])
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
    columns = ["rule", "cases", "verified", "original on torchax", "fixed on torchax", "compiled for TPU"]
    parts = [head, _line(columns), _line(["---", "---:", "---:", "---", "---", "---:"])]
    for (code, rule), group in groupby(cases, key=lambda case: (case["code"], case["rule"])):
        parts.append(_line(_row(code, rule, list(group))))
    missing = [case for case in cases if case["state"] == "not run"]
    if missing:
        parts += [_NOT_RUN, _line(["case", "why"]), _line(["---"] * 2)]
        parts += [_line([_link(case), _reason(case)]) for case in missing]
    failed = [case for case in cases if case["state"] == "failed"]
    if failed:
        parts += ["\n## Failed\n\n", *(f"- {_link(case)}\n" for case in failed)]
    parts += [_elsewhere(environment, root / "fixtures") for environment in ENVIRONMENTS.values()]
    return "".join(parts)


def _elsewhere(environment: Environment, fixtures: Path) -> str:
    """The section of an environment of its own; "" if no case was executed in it."""
    cases = records.read(environment.record(fixtures))
    if not cases:
        return ""
    states = Counter(entry["state"] for entry in cases.values())
    head = _ENVIRONMENT.format(
        title=environment.title,
        count=len(cases),
        name=environment.name,
        command=environment.command,
        verified=states["verified"],
        not_run=states["not run"],
    )
    rows = [_line(["case", "original", "fixed", "note"]), _line(["---"] * 4)]
    for name, entry in sorted(cases.items()):
        rule, _, case = name.partition("/")
        words = (entry.get(key, "").replace("|", "\\|") for key in ("before", "after", "note"))
        rows.append(_line([_link({"rule": rule, "case": case}), *map(_shortened, words)]))
    return "".join([head, *rows])


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _row(code: str, rule: str, cases: Sequence[Mapping[str, Any]]) -> list[str]:
    name = rule.replace("_", "-")
    title = f"[{code} {name}](rules/{name}.md)" if code else "whole programs"
    verified = sum(case["state"] == "verified" for case in cases)
    final = (case.get("fixed") or case.get("original", {}) for case in cases)
    compiled = sum(any(happened.startswith("compiles") for happened in side.values()) for side in final)
    counts = [_counts(case.get(side, {}) for case in cases) for side in ("original", "fixed")]
    return [title, str(len(cases)), str(verified), *counts, str(compiled)]


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
    return ", ".join(f"{found[word]} {text}" for word, text in _OUTCOMES.items() if found[word]) or "none"


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
