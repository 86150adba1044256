"""docs/coverage.md: which patterns, of those whose behaviour on torchax was measured, tpulint reports.

`tests/behaviour/rows.jsonl` has a pattern a line, `reasons.json` why no rule reports some of them.
Each snippet is checked as a program of its own, in which its function `f` is jitted.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from tpulint.engine.run import analyse_units, as_units
from tpulint.settings import SYNTAX_ERROR, Settings

ROWS = Path("tests/behaviour/rows.jsonl")
REASONS = Path("tests/behaviour/reasons.json")
PAGE = Path("docs/coverage.md")
DATA = Path("docs/data/coverage.json")

_HEAD = """\
import io
import math
import os
import types

import jax
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchax
import torchvision
from torchax import interop

torchax.enable_globally()
dev = "jax"
jit = torchax.compile
"""
#: What the runs were given, and where they took their tensors from.
_RUN = "def run(dev, jit):"
_POOL = re.compile(r"pools\[\d\]\['(\w+)'\]")
_FUNCTION = re.compile(r"^def f\(([^)]*)\):", re.MULTILINE)
#: The snippets' names for masks and for integers.
_TYPES = {
    **dict.fromkeys(("m", "mrow"), "BoolTensor"),
    **dict.fromkeys(("i", "n", "ids"), "LongTensor"),
}
_NARROWED = re.compile(r"((call\d: )?(\[[\d\]\[ ]+ )?dtype (int64->int32|float64->float32)[;, ]*)+")
#: What happened, and whether a rule reports it, in the order of the page.
_STATES = ("found", "not found", "silent", "explained")


@dataclass(frozen=True, slots=True)
class Row:
    """A measured pattern, and the codes of the rules that report it."""

    id: str
    family: str
    pattern: str
    happens: str
    works: bool
    codes: tuple[str, ...]
    reason: str

    @property
    def state(self) -> str:
        """`found` or `not found` where it does not work, `silent` or `explained` where it does."""
        if self.works:
            return "explained" if self.codes else "silent"
        return "found" if self.codes else "not found"


def rows(root: Path) -> list[Row]:
    """All measured patterns, checked."""
    reasons = {
        name: reason
        for reason, names in json.loads((root / REASONS).read_text(encoding="utf-8")).items()
        for name in names
    }
    lines = (root / ROWS).read_text(encoding="utf-8").splitlines()
    return [_checked(json.loads(line), reasons) for line in lines]


def _checked(row: dict[str, str], reasons: dict[str, str]) -> Row:
    name = f"/{row['id'].replace('.', '_')}.py"
    found = analyse_units(
        as_units({name: _program(row["snippet"]).encode()}), Settings(root=Path("/")), jobs=1
    )
    if found.errors:
        raise RuntimeError(f"{row['id']}: {found.errors[0].message}")
    codes = tuple(sorted({finding.code for finding in found.findings} - {SYNTAX_ERROR}))
    works, happens = _outcome(row)
    return Row(
        row["id"], row["family"], row["pattern"], happens, works, codes, reasons.get(row["id"], "no rule yet")
    )


def _program(snippet: str) -> str:
    """A snippet with the imports that it counts on, its tensors declared and its function jitted."""
    if "class " in snippet:  # whose methods call their instance `s`
        snippet = re.sub(r"\bs\.", "self.", re.sub(r"\(s([,)])", r"(self\1", snippet))
    snippet = _POOL.sub(_made, snippet.replace(_RUN, "def run():"))
    declared = _FUNCTION.sub(lambda match: f"def f({_declared(match[1])}):", snippet)
    jitted = "\n\nfast = torchax.interop.jax_jit(f)\n" if declared != snippet else "\n"
    return f"{_HEAD}\n\n{declared}{jitted}"


def _made(name: re.Match[str]) -> str:
    return "torch.arange(4)" if name[1] in _TYPES else "torch.ones(4, 6)"


def _declared(parameters: str) -> str:
    names = (part.strip() for part in parameters.split(",") if part.strip())
    return ", ".join(
        f"{name}: torch.{_TYPES.get(name, 'Tensor')}" if name.isidentifier() else name for name in names
    )


def _outcome(row: dict[str, str]) -> tuple[bool, str]:
    works = "works"
    for mode in ("eager", "jit"):
        said = row[mode]
        if said.startswith("raises"):
            return False, f"{mode}: {said.removeprefix('raises ').partition(':')[0]}"
        if said.startswith("DIFFERS"):
            return False, f"{mode}: different result"
        if said.startswith("ok,"):
            what = said.removeprefix("ok, ")
            if _NARROWED.match(what):
                works = "works, in 32 bits"
                continue
            return False, f"{mode}: {what}"[:60]
    return True, works


@cache
def rendered(root: Path) -> tuple[str, str]:
    """The page, and the data file with every pattern."""
    everything = rows(root)
    families: dict[str, list[Row]] = defaultdict(list)
    for row in everything:
        families[row.family].append(row)
    parts = [_INTRODUCTION, "| family | patterns | " + " | ".join(_STATES) + " |", "| --- |" + " ---: |" * 5]
    for name, family in (*sorted(families.items()), ("all", everything)):
        counts = Counter(row.state for row in family)
        parts.append(f"| {name} | {len(family)} | " + " | ".join(str(counts[s]) for s in _STATES) + " |")
    parts.append(_NOT_FOUND)
    missed = sorted((row for row in everything if row.state == "not found"), key=lambda row: row.reason)
    for reason, group in groupby(missed, key=lambda row: row.reason):
        parts += ["", f"### {reason[0].upper()}{reason[1:]}", "", "| pattern | on torchax |", "| --- | --- |"]
        parts += [f"| {_cell(row.pattern)} | {_cell(row.happens)} |" for row in group]
    return "\n".join(parts) + "\n", _data(everything)


def _data(everything: list[Row]) -> str:
    lines = (
        json.dumps(
            {
                "id": row.id,
                "family": row.family,
                "pattern": row.pattern,
                "torchax": row.happens,
                "state": row.state,
                "rules": row.codes,
                **({"reason": row.reason} if row.state == "not found" else {}),
            }
        )
        for row in everything
    )
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


_INTRODUCTION = """\
<!-- Written by `python -m tpulint.dev render-docs` from tests/behaviour. -->

# Coverage

920 patterns of GPU code were run on torch 2.13.0, torchax 0.0.14.dev20261026 and jax 0.10.2, and compared
with plain PyTorch.
tpulint checks each of them as a program of its own, in which the tensors are annotated.
This page counts which ones it reports.
[data/coverage.json](data/coverage.json) has every pattern, with the rules that report it.

| word | meaning |
| --- | --- |
| found | the pattern fails or gives different results on torchax, and a rule reports it |
| not found | it fails or gives different results, and no rule reports it |
| silent | it works, and no rule reports it |
| explained | it works in this snippet, and a rule reports it because it has no effect or fails elsewhere |
"""
_NOT_FOUND = """
## Patterns that are not found

They are grouped by the reason."""
