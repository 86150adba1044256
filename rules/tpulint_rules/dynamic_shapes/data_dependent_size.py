"""Factory whose size depends on a tensor's value in traced code.

## What it does

Flags `torch.arange`, `torch.zeros`, `torch.ones`, `torch.full`, `torch.empty`, `torch.linspace`,
`torch.rand`, `torch.randn`, `torch.randperm` and `torch.eye` whose size comes out of a tensor, in code
that tracing reaches.
A size taken from `x.shape` is static and is left alone.

## Why it matters on TPU

XLA compiles for fixed shapes.
A size that is a tensor raises `TracerBoolConversionError` or `ConcretizationTypeError` under jit.

## Without a fix

Use an upper bound that is known (the padded length) and mask what lies beyond:
`torch.arange(max_length, device=x.device)[None] < lengths[:, None]`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Finding
from tpulint.rule import SIZED_FACTORIES, Context, Rule

rule = Rule(
    "TPU402", "factory whose size depends on a tensor's value in traced code", module=__name__, fix=None
)


@rule.on(ast.Call, named=SIZED_FACTORIES, traced=True)
def factory(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    size = ctx.data_dependent_size(call)
    if size is not None:
        name = ctx.qualified_name(call.func)
        yield ctx.finding(call, f"the size of `{name}` depends on a tensor's value; XLA needs fixed shapes")
