"""docs/coverage.md: what tpulint says of each pattern whose behaviour on torchax was measured.

`tests/behaviour/rows.jsonl` has a pattern a line, `reasons.json` why no rule speaks of some.
Each snippet is checked as a program of its own, its function `f` jitted; the page tells which rules speak,
and counts the patterns on which they should.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tpulint.engine.run import analyse_units, as_units
from tpulint.settings import SYNTAX_ERROR, Settings

ROWS = Path("tests/behaviour/rows.jsonl")
REASONS = Path("tests/behaviour/reasons.json")
PAGE = Path("docs/coverage.md")

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
#: What happened, and whether a rule speaks, in the order of the page.
_COLUMNS = "| pattern | on torchax | rules, or why there is none |"
_STATES = ("found", "not found", "silent", "explained")


@dataclass(frozen=True, slots=True)
class Row:
    """A measured pattern, and the codes of the rules that speak of it."""

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
            return False, f"{mode}: another result"
        if said.startswith("ok,"):
            what = said.removeprefix("ok, ")
            if _NARROWED.match(what):
                works = "works, in 32 bits"
                continue
            return False, f"{mode}: {what}"[:60]
    return True, works


@cache
def render(root: Path) -> str:
    """The page."""
    families: dict[str, list[Row]] = defaultdict(list)
    everything = rows(root)
    for row in everything:
        families[row.family].append(row)
    parts = [_INTRODUCTION, "| family | patterns | " + " | ".join(_STATES) + " |", "| --- |" + " ---: |" * 5]
    for name, family in (*sorted(families.items()), ("all", everything)):
        counts = Counter(row.state for row in family)
        parts.append(f"| {name} | {len(family)} | " + " | ".join(str(counts[s]) for s in _STATES) + " |")
    for name, family in sorted(families.items()):
        parts += [
            "",
            f"## {name}",
            "",
            "| pattern | on torchax | rules, or why there is none |",
            "| --- | --- | --- |",
        ]
        parts += [f"| {_cell(row.pattern)} | {_cell(row.happens)} | {_rules(row)} |" for row in family]
    return "\n".join(parts) + "\n"


def _rules(row: Row) -> str:
    return ", ".join(row.codes) or (row.reason if row.state == "not found" else "")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


_INTRODUCTION = """\
<!-- Written by `python -m tpulint.dev render-docs`. -->

# Coverage

Patterns of GPU code, and the rules that speak of each.
Their behaviour was measured on torch 2.13.0, torchax 0.0.14.dev20261026 and jax 0.10.2.
Every pattern is checked as a program of its own, with its tensors declared.

*found*: it does not work as in plain torch, and a rule says so.
*not found*: it does not, and none does.
*silent*: it works, and no rule speaks.
*explained*: the snippet works, and a rule speaks: the same text fails elsewhere, or has no effect.
"""
