"""Tensor created with a data-dependent size in traced code.

## What it does

Reports calls of the following functions in traced code, if the size of the new tensor depends on the value of
another tensor: `torch.arange`, `torch.zeros`, `torch.ones`, `torch.full`, `torch.empty`, `torch.linspace`,
`torch.rand`, `torch.randn`, `torch.randperm` and `torch.eye`.
Traced code is code that JAX traces to compile it, such as a model's `forward`.
A size taken from `x.shape` is known while JAX traces the code and is not reported.

## Why it matters on TPU

XLA compiles for fixed shapes.
In jitted code, a size that is a tensor raises `TracerBoolConversionError` or `ConcretizationTypeError`.

## Without a fix

Create the tensor with a size that is a known upper bound, such as the padded length.
Then mask the elements beyond the actual size, for example with `torch.arange(max_length,
device=x.device)[None] < lengths[:, None]`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tensors import SIZED_FACTORIES
from tpulint.rules_api import Context, Finding, Rule

rule = Rule("TPU402", "tensor created with a data-dependent size in traced code", module=__name__, fix=None)


@rule.on(ast.Call, named=SIZED_FACTORIES, traced=True, handled="values of tensors in Python code")
def factory(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    size = ctx.types.data_dependent_size(call)
    if size is not None:
        name = ctx.names.qualified(call.func)
        yield ctx.finding(
            call, f"the output size of `{name}` depends on a tensor's value, but XLA needs fixed shapes"
        )
