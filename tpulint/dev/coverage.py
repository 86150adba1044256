"""docs/coverage.md: how many of the patterns that were run on torchax tpulint reports.

`tests/behaviour/rows.jsonl` has one pattern per line; `reasons.json` says why no rule reports some of them.
Each snippet is checked as a separate program, in which its function `f` is jitted.
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
_MODES = {"eager": "", "jit": ", but only when compiled"}
#: The snippets' names for masks and for integers.
_TYPES = {
    **dict.fromkeys(("m", "mrow"), "BoolTensor"),
    **dict.fromkeys(("i", "n", "ids"), "LongTensor"),
}
_NARROWED = re.compile(r"((call\d: )?(\[[\d\]\[ ]+ )?dtype (int64->int32|float64->float32)[;, ]*)+")
_FOUND, _MISSED = "fails, reported", "fails, not reported"
_SILENT, _EXPLAINED = "works, not reported", "works, reported"
#: Whether a pattern works on torchax, and whether a rule reports it, in the order of the page.
_STATES = (_FOUND, _MISSED, _SILENT, _EXPLAINED)
_FAMILIES = {
    "aot": "compilation ahead of time: memory, weights, sharding",
    "autograd": "`backward`, gradients, `no_grad`, training loops",
    "callback": "host functions, `print` and `assert` in jitted functions",
    "control-flow": "`if`, `while`, `for`, `assert` and `try` with tensors",
    "data-io": "data loaders, NumPy, checkpoints",
    "device": "`cuda()`, `to(...)`, checks of the device",
    "dtype": "64-bit dtypes, bfloat16, type promotion",
    "dynamic-shape": "boolean masks, `nonzero`, sizes that depend on data",
    "env-config": "environment variables, warnings, installation commands",
    "factory": "functions that create tensors",
    "host-conversion": "`.item()`, `float(t)`, `.numpy()`, formatting",
    "import-side-effect": "code that fails after `import torchax`",
    "op-support": "operators and layers",
    "rng": "random numbers and seeds",
    "splash-attention": "the splash attention kernel of JAX",
    "state": "attributes, buffers, hooks, arguments of jitted functions",
    "tensorflow": "TPU classes of TensorFlow",
    "torch.cuda": "functions of `torch.cuda`, AMP, distributed training, GPU packages",
    "torch_xla": "functions of torch_xla",
    "torchax-api": "functions of torchax and JAX",
    "torchvision": "transforms, operators and image files of torchvision",
    "view-inplace": "views, in-place operations, memory layout",
    "warnings": "warnings of PyTorch",
}


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
        """Whether it works, and whether a rule reports it: one of `_STATES`."""
        if self.works:
            return _EXPLAINED if self.codes else _SILENT
        return _FOUND if self.codes else _MISSED


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
            return False, f"raises `{said.removeprefix('raises ').partition(':')[0]}`{_MODES[mode]}"
        if said.startswith("DIFFERS"):
            return False, f"gives a different result than PyTorch{_MODES[mode]}"
        if said.startswith("ok,"):
            what = said.removeprefix("ok, ")
            if _NARROWED.match(what):
                works = "works, in 32 bits"
                continue
            return False, f"{what[:60]}{_MODES[mode]}"
    return True, works


@cache
def rendered(root: Path) -> tuple[str, str]:
    """The page, and the data file with every pattern."""
    everything = rows(root)
    families: dict[str, list[Row]] = defaultdict(list)
    for row in everything:
        families[row.family].append(row)
    head = ("family", "about", "patterns", *_STATES)
    parts = [_INTRODUCTION.format(count=len(everything)), f"| {' | '.join(head)} |", _RULE]
    for name, family in (*sorted(families.items()), ("all", everything)):
        counts = Counter(row.state for row in family)
        about = _FAMILIES.get(name, "all families")
        cells = (name, about, len(family), *(counts[state] for state in _STATES))
        parts.append(f"| {' | '.join(map(str, cells))} |")
    parts.append(_NOT_REPORTED)
    missed = sorted((row for row in everything if row.state == _MISSED), key=lambda row: row.reason)
    for reason, group in groupby(missed, key=lambda row: row.reason):
        title = f"### {reason[0].upper()}{reason[1:]}"
        parts += ["", title, "", "| pattern | what happens on torchax |", "| --- | --- |"]
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
                **({"reason": row.reason} if row.state == _MISSED else {}),
            }
        )
        for row in everything
    )
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _cell(text: str) -> str:
    """Text for a cell of a table, whose `<` outside of code would begin a tag."""
    parts = " ".join(text.split()).replace("|", "\\|").split("`")
    return "`".join(part if i % 2 else part.replace("<", "&lt;") for i, part in enumerate(parts))


_RULE = "| --- | --- |" + " ---: |" * 5
_INTRODUCTION = """\
<!-- Written by `python -m tpulint.dev render-docs` from tests/behaviour. -->

# Coverage

{count} patterns of GPU code were run with torch 2.13.0, torchax 0.0.14.dev20261026 and jax 0.10.2.
The results on torchax were compared with those of plain PyTorch.
This page counts how many of the patterns tpulint reports, and lists the patterns that fail and that tpulint
does not report.
[data/coverage.json](data/coverage.json) has every pattern, with the rules that report it.

Each pattern is a short snippet of code.
Each snippet was run eagerly (one operation at a time).
Most snippets were also run compiled, with `jax_jit` or `torchax.compile`.
tpulint checked each snippet as a separate program, in which the tensors have type annotations.

The following table counts the patterns by family.
Its last four columns mean:

| column | meaning |
| --- | --- |
| fails, reported | On torchax, the pattern raises an error, or gives a different result. \
A rule reports the pattern. |
| fails, not reported | On torchax, the pattern raises an error, or gives a different result. \
No rule reports the pattern. |
| works, not reported | The pattern works on torchax. No rule reports the pattern. |
| works, reported | The pattern works in this snippet, but a rule reports it: \
the pattern has no effect on torchax, or it fails in other code. |

A result also counts as different if torchax returns a result where PyTorch raises an error.
If the only difference is that a tensor has a 32-bit dtype instead of a 64-bit dtype, the pattern counts as
working. If the snippet returns the dtype itself, such a pattern counts as a different result.
"""
_NOT_REPORTED = """
## Patterns that fail and are not reported

The patterns are grouped by the reason why no rule reports them.
*Only when compiled* means that the pattern works when it runs one operation at a time (eagerly)."""
