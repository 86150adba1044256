"""Optimizer step of torch_xla that does not end its graph.

## What it does

With the target `torch_xla`, reports `optimizer.step()` in a loop if no statement after it in the loop calls
`torch_xla.sync()`, `xm.mark_step()` or `xm.optimizer_step`, and the loop does not iterate over a device
loader of torch_xla.

## Why it matters on TPU

torch_xla records operations, and computes them at `torch_xla.sync()`, or when the program reads a value.
Without `torch_xla.sync()`, the graph grows with each step.
For a network of two layers, the graph of one step had 48 operations, and that of ten steps without
`torch_xla.sync()` had 336. XLA compiles it anew for each number of steps.

## Fix safety

The fix is unsafe, because it adds code that the original program does not have; results stay the same.
It adds `torch_xla.sync()` after the step.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.targets import TORCH_XLA
from tpulint.knowledge.torch_xla import short_name
from tpulint.rules_api import Applicability, Context, Finding, Instance, Rule

rule = Rule(
    "XLA201",
    "optimizer step of `torch_xla` that does not end its graph",
    module=__name__,
    fix=Applicability.UNSAFE,
    targets={TORCH_XLA.name},
)

_ENDS = frozenset({"torch_xla.sync", "xm.mark_step", "xm.optimizer_step"})
_LOADERS = frozenset({"pl.MpDeviceLoader", "pl.ParallelLoader"})


@rule.on(ast.Call, named={"step"})
def step(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    statement = ctx.statement(call)
    if not isinstance(statement, ast.Expr) or statement.value is not call or not _is_optimizer(call, ctx):
        return
    loop = next((outer for outer in ctx.ancestors(call) if isinstance(outer, ast.For | ast.While)), None)
    if loop is None or not ctx.program.calls_backward or _ends(loop, ctx) or _uses_device_loader(ctx):
        return
    imports, fix = ctx.rewrite.imports("import torch_xla"), None
    if imports is not None:
        edit = ctx.rewrite.insert_after(statement, "torch_xla.sync()")
        title = "add `torch_xla.sync()`, which computes the step"
        fix = ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
    yield ctx.finding(
        call, "`torch_xla` records this step, and the graph grows until the program reads a value", fix
    )


def _is_optimizer(call: ast.Call, ctx: Context) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    kind = ctx.types.of(call.func.value)
    if isinstance(kind, Instance):
        is_scheduler = kind.cls.startswith("torch.optim.lr_scheduler.")
        return kind.cls.startswith("torch.optim.") and not is_scheduler
    name = getattr(call.func.value, "attr", getattr(call.func.value, "id", ""))
    return str(name).lower().startswith("opt")


def _ends(loop: ast.For | ast.While, ctx: Context) -> bool:
    """Whether the loop ends the graph of each step."""
    calls = (node for node in ast.walk(loop) if isinstance(node, ast.Call))
    return any(short_name(ctx.names.qualified(call.func)) in _ENDS for call in calls)


def _uses_device_loader(ctx: Context) -> bool:
    """Whether the file has a device loader, which ends a graph with each batch."""
    return any(
        short_name(at.names.qualified(call.func)) in _LOADERS
        for name in ("MpDeviceLoader", "ParallelLoader")
        for call, at in ctx.calls(name)
    )
