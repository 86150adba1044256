"""Processes that a program for torch_xla spawns itself.

## What it does

With the target `torch_xla`, reports `torch.multiprocessing.spawn`.

## Why it matters on TPU

torch_xla starts one process for each device itself, and gives each process a device of its own.
Processes of `torch.multiprocessing.spawn` all use the same device, which only one of them can have on a TPU.

## Fix safety

The fix is unsafe, because torch_xla decides how many processes it starts: one for each device, whatever the
argument `nprocs` says.
It replaces the call with `torch_xla.launch(function, args=...)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.targets import TORCH_XLA
from tpulint.rules_api import Applicability, Context, Finding, Rule

rule = Rule(
    "XLA203",
    "processes that a program for `torch_xla` spawns itself",
    module=__name__,
    fix=Applicability.UNSAFE,
    targets={TORCH_XLA.name},
)


@rule.on(ast.Call, named={"spawn"})
def spawned(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    given = ctx.program.spawned(call)
    if given is None:
        return
    statement, fix = ctx.statement(call), None
    launch = ctx.program.target.launch
    imports = ctx.rewrite.imports(*ctx.program.target.needed_for(launch))
    is_alone = isinstance(statement, ast.Expr) and statement.value is call
    if imports is not None and is_alone and "fn" in given:
        arguments = f", args={ctx.text(given['args'])}" if "args" in given else ""
        edit = ctx.rewrite.replace(call, f"{launch}({ctx.text(given['fn'])}{arguments})")
        title = f"replace `spawn` with `{launch}`"
        fix = ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
    yield ctx.finding(
        call, "`spawn` starts processes without a device of their own; `torch_xla` starts them itself", fix
    )
