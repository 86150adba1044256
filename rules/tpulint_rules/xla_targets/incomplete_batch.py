"""Loader of training samples whose last batch may be smaller.

## What it does

With the target `torch_xla`, reports a `DataLoader` that shuffles or has a sampler, without `drop_last`, in a
program that computes gradients.

## Why it matters on TPU

XLA compiles a graph anew for each shape of its inputs, also for a last batch that is smaller than the
others.
In the example, torch_xla compiles the training step twice; with `drop_last=True`, it compiles it once.
On a TPU, a compilation can take minutes.

## Fix safety

The fix is unsafe, because the program no longer trains on the samples of an incomplete batch in each epoch.
It adds `drop_last=True`.

## Without a fix

To train on all samples, choose a batch size that divides their number.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.targets import TORCH_XLA
from tpulint.rules_api import Applicability, Context, Finding, Rule

rule = Rule(
    "XLA207",
    "loader of training samples whose last batch may be smaller",
    module=__name__,
    fix=Applicability.UNSAFE,
    targets={TORCH_XLA.name},
)

_LOADERS = frozenset({"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"})


@rule.on(ast.Call, named={"DataLoader"})
def loader(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    words = {word.arg: word.value for word in call.keywords}
    if ctx.names.qualified(call.func) not in _LOADERS or not words.keys().isdisjoint(
        {None, "drop_last", "batch_sampler"}
    ):
        return
    size = call.args[1] if len(call.args) > 1 else words.get("batch_size")
    if size is None or (isinstance(size, ast.Constant) and size.value in (None, 1)) or len(call.args) > 2:
        return
    is_for_training = _is_true(words.get("shuffle")) or "sampler" in words
    if not is_for_training or not ctx.program.calls_backward:
        return
    if not ctx.program.serves_device and not ctx.program.runs_on_torch_xla:
        return
    edit = ctx.rewrite.add_argument(call, "drop_last=True")
    fix = ctx.rewrite.fix("add `drop_last=True`", edit, applicability=Applicability.UNSAFE)
    yield ctx.finding(call, "`torch_xla` compiles the step anew for a last batch of another size", fix)


def _is_true(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is True
