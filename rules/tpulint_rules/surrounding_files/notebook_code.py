"""Notebook whose code is not analyzed.

## What it does

Reports a notebook of which a cell imports torch, torchvision, torch_xla, JAX, Flax, TensorFlow or Keras.
The notebook is reported once, at this cell.

Commands of a notebook that a shell runs, such as `!pip install torch==2.4.0+cu121` and cells that begin with
`%%bash`, are analyzed: the other rules of this group report them.

## Why it matters on TPU

tpulint does not analyze the Python code of notebooks.
Without this finding, a notebook that was not analyzed would look like one that needs no changes.
The summary of `tpulint check` counts these notebooks.

## Without a fix

Make a script of the notebook with `jupyter nbconvert --to script`, and check the script.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Finding, Rule
from tpulint.rules_api.files import Cell, FileContext

rule = Rule("ENV109", "notebook whose code is not analyzed", module=__name__, fix=None, targets=EVERY_TARGET)

_IMPORT = re.compile(
    r"^\s*(?:import|from)\s+(?P<name>torch|torchvision|torch_xla|jax|flax|tensorflow|keras)\b", re.MULTILINE
)


@rule.on_part(Cell)
def cell(found: Cell, ctx: FileContext) -> Iterator[Finding]:
    importing = (part for part in ctx.parts if isinstance(part, Cell) and _IMPORT.search(part.code))
    match = _IMPORT.search(found.code)
    if match is not None and found is next(importing):
        yield ctx.finding(
            found,
            f"the code of this notebook, which imports `{match['name']}`, is not analyzed; make a script of "
            "it with `jupyter nbconvert --to script`",
        )
