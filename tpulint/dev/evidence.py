"""docs/evidence.md: what happened when the fixtures were executed."""

from __future__ import annotations

import json
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

PAGE = Path("docs/evidence.md")
_PACKAGES = ("torch", "torchax", "jax", "libtpu", "torchvision")
_WIDTH = 90
_HEAD = """\
<!-- Written by `python -m tpulint.dev evidence` from `tpulint verify --output-format json`. -->

# Evidence

Every case is executed: the original in plain PyTorch (reference), then the original and what `tpulint fix`
makes of it on torchax in eager mode, under `jax_jit`, and, where it is traced code, through the TPU compiler.
*happened* is what the last run on record gave; *verified* means that it is what the case claims.

"""


def render(report: str) -> str:
    """The page for a report of `tpulint verify --output-format json`, with the installed versions."""
    rows: list[dict[str, Any]] = json.loads(report)
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    cases = [list(group) for _, group in groupby(rows, key=lambda row: (row["rule"], row["case"]))]
    states = [_state(case) for case in cases]
    counted = ", ".join(f"{states.count(state)} {state}" for state in ("verified", "failed", "not run"))
    parts = [f"{_HEAD}With {versions}: {counted}.\n"]
    for rule, group in groupby(cases, key=lambda case: (case[0]["code"], case[0]["rule"])):
        parts.append(f"\n## {rule[0]} {rule[1].replace('_', '-')}\n")
        parts.append("\n| case | side | stage | happened | state |\n| --- | --- | --- | --- | --- |\n")
        for case in group:
            for row in case:
                cells = (row["case"], row["side"], row["stage"], _cell(row["happened"]), row["state"])
                parts.append("| " + " | ".join(cells) + " |\n")
    return "".join(parts)


def _state(case: list[dict[str, Any]]) -> str:
    states = {row["state"] for row in case}
    return "failed" if "failed" in states else "verified" if states == {"verified"} else "not run"


def _cell(text: str) -> str:
    line = " ".join(text.split())
    line = line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
    return line.replace("|", "\\|").replace("<", "&lt;")
