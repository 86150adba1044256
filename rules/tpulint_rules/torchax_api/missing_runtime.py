"""Program that imports the runtime torchax-compat, which is not installed.

## What it does

The rule reports imports of `torchax_compat` in the file of a program that calls `torchax_compat.enable()`, if
none of these statements is true:

- The package is installed in the environment in which tpulint runs.
- The project declares `torchax-compat` as a dependency, in `pyproject.toml`, `setup.cfg`, `setup.py`,
  `requirements*.txt` or `environment.yml`.
- The project contains a copy, as `tpulint vendor` makes it, beside the file, beside its package, or in a
  folder above them.

## Why it matters on TPU

The program raises `ModuleNotFoundError: No module named 'torchax_compat'`.

## Without a fix

- Run `pip install torchax-compat`, and add `torchax-compat` to the dependencies of the project.
- If the project is to have no dependency, run `tpulint vendor`, which copies the package into the project.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.runtime import ENABLE, PACKAGE
from tpulint.rules_api import Context, Effort, Finding, Rule

rule = Rule(
    "TPU907",
    "import of torchax-compat, which is not installed",
    module=__name__,
    fix=None,
    effort=Effort.MINUTES,
)


@rule.on(ast.Call, named={"enable"})
def enabled(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != ENABLE or ctx.program.finds_runtime:
        return
    statement = ctx.names.first_import(PACKAGE)
    if statement is not None:
        message = (
            f"`{PACKAGE}` is not installed, not a dependency of the project, and not in it: run "
            "`pip install torchax-compat`, or `tpulint vendor`"
        )
        yield ctx.finding(statement, message)
