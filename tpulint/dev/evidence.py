"""docs/evidence.md: what happened when the fixtures were executed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

PAGE = Path("docs/evidence.md")
_PACKAGES = ("torch", "torchax", "jax", "libtpu", "torchvision")
_REFERENCE = "reference"
_HEAD = """\
<!-- Written by `python -m tpulint.dev evidence` from `tpulint verify --output-format json`. -->

# Evidence

What happened when tpulint's fixtures were executed, before and after its fixes, with {versions}.

{counts}

`make evidence` writes this page anew; `tpulint verify RULE` runs one rule's cases and shows all messages.

## How to read it

A case is a folder of [fixtures](../fixtures): code as it is written for CUDA, what the fix makes of it, and
how to call both.
The *original* runs in plain PyTorch first, which gives the expected result.
Then the original and the *fixed* code run on torchax: eagerly, under `jax_jit`, and through the compiler for
each TPU.
A column is empty where there is nothing to run: code that is not for tracing is neither jitted nor compiled,
and a case without a fix has no fixed code.
No TPU was used: the compiler needs none, and the other columns are of the CPU.

| word | meaning |
| --- | --- |
| equal | the result of plain PyTorch; in parentheses, how many operations torchax executed |
| narrowed | the same, with 32 bits in place of 64, as torchax has it unless told otherwise |
| raises | this exception |
| differs | another result, and nothing raises |
| host | the result never left the host |
| crashes | the process died |
| compiles | the TPU's compiler took it; in parentheses, the bytes for its arguments and temporaries |
| **failed** | not what the case claims |
"""


def render(report: str) -> str:
    """The page for a report of `tpulint verify --output-format json`, with the installed versions."""
    rows: list[dict[str, Any]] = json.loads(report)
    rows.sort(key=lambda row: (row["code"] or "~", row["rule"], row["case"]))
    cases = [list(group) for _, group in groupby(rows, key=lambda row: (row["rule"], row["case"]))]
    states = [_state(case) for case in cases]
    verified, failed, not_run = (states.count(state) for state in ("verified", "failed", "not run"))
    counts = (
        f"{verified} of {len(cases)} cases are verified: they did all that they claim. "
        f"{failed} failed, {not_run} were not run."
    )
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    parts = [_HEAD.format(versions=versions, counts=counts)]
    missing = [next((row for row in case if row["state"] == "not run"), None) for case in cases]
    reasons = [
        _line([_link(row, f"{row['rule']}/{row['case']}"), row["happened"]])
        for row in missing
        if row is not None
    ]
    if reasons:
        parts += ["\n## Not run\n\n", _line(["case", "why"]), _line(["---"] * 2), *reasons]
    run = [case for case in cases if any(row["state"] != "not run" for row in case)]
    stages = list(dict.fromkeys(row["stage"] for row in rows if row["stage"] != _REFERENCE))
    for (code, rule), group in groupby(run, key=lambda case: (case[0]["code"], case[0]["rule"])):
        name = rule.replace("_", "-")
        parts.append(f"\n## {f'[{code} {name}](rules/{name}.md)' if code else name.capitalize()}\n\n")
        parts.append(_line(["case", "code", *(stage.replace("tpu", "TPU") for stage in stages)]))
        parts.append(_line(["---"] * (2 + len(stages))))
        for case in group:
            parts += _lines(case, stages)
    return "".join(parts)


def _lines(case: Sequence[dict[str, Any]], stages: Iterable[str]) -> Iterable[str]:
    for side in ("original", "fixed"):
        cells = {row["stage"]: _cell(row) for row in case if row["side"] == side}
        if cells.keys() - {_REFERENCE}:
            yield _line([_link(case[0], case[0]["case"]), side, *(cells.get(stage, "") for stage in stages)])
    for row in case:
        if row["stage"] == _REFERENCE and row["state"] == "failed":
            yield _line([_link(row, row["case"]), "original", f"plain PyTorch: {_cell(row)}"])


def _link(row: dict[str, Any], text: str) -> str:
    return f"[{text}](../fixtures/{row['rule']}/{row['case']})"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |\n"


def _state(case: Iterable[dict[str, Any]]) -> str:
    states = {row["state"] for row in case}
    return "failed" if "failed" in states else "verified" if states == {"verified"} else "not run"


def _cell(row: dict[str, Any]) -> str:
    """The word of an outcome, with the count that it ends in where all went well."""
    word, _, detail = row["happened"].partition(":")
    if word in ("equal", "narrowed", "compiles"):
        word = f"{word} ({detail.split()[-2]})"
    return f"**failed**: {word}" if row["state"] == "failed" else word
