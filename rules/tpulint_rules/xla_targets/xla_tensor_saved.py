"""Tensors of torch_xla that are saved as they are.

## What it does

With the target `torch_xla`, reports `torch.save` of a value that contains a call of `state_dict()`, in
programs that put tensors on a device.

## Why it matters on TPU

`torch.save` saves tensors of torch_xla as such: `torch.load` then returns tensors on the device `xla:0`, and
raises where torch_xla is not installed.

## Fix safety

The fix is unsafe, because the file then has tensors of the host: a program that loads it has to move them.
`load_state_dict` does so.
It replaces `torch.save` with `xm.save`, which copies tensors to the host, and saves on the first process of
each host only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.targets import TORCH_XLA
from tpulint.rules_api import Applicability, Context, Finding, Rule

rule = Rule(
    "XLA204",
    "tensors of `torch_xla` that are saved as they are",
    module=__name__,
    fix=Applicability.UNSAFE,
    targets={TORCH_XLA.name},
)


@rule.on(ast.Call, named={"save"})
def saved(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "torch.save" or len(call.args) != 2 or call.keywords:
        return
    is_on_device = ctx.program.serves_device or ctx.program.runs_on_torch_xla
    if not is_on_device or not _has_state(call.args[0]):
        return
    target = ctx.program.target
    imports, fix = ctx.rewrite.imports(target.save_import), None
    if imports is not None:
        edit = ctx.rewrite.replace(call.func, target.save)
        fix = ctx.rewrite.fix(
            f"replace `torch.save` with `{target.save}`", edit, *imports, applicability=Applicability.UNSAFE
        )
    yield ctx.finding(
        call, "the file has tensors of `torch_xla`, which only a program with `torch_xla` can load", fix
    )


def _has_state(value: ast.expr) -> bool:
    calls = (node.func for node in ast.walk(value) if isinstance(node, ast.Call))
    return any(isinstance(called, ast.Attribute) and called.attr == "state_dict" for called in calls)
