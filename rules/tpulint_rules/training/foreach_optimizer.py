"""Optimizer with `foreach=True` or `fused=True`.

## What it does

The rule reports `foreach=True` and `fused=True` as arguments of the optimizers in `torch.optim`, in programs
that put tensors on a CUDA or torchax device.

## Why it matters on TPU

With `foreach=True` or `fused=True`, the optimizer calls operations on lists of tensors, which torchax does
not implement.
The first call of `optimizer.step()` raises `OperatorNotFound: Operator with name aten::_foreach_add.List has
no lowering`.

## Fix safety

The fix is safe: it removes the argument.
The optimizer then updates one tensor at a time, which gives the same results.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Finding, Rule

rule = Rule(
    "TPU643",
    "optimizer with `foreach=True` or `fused=True`",
    module=__name__,
    former=("optimizer-over-lists",),
    fix=Applicability.SAFE,
)

_WAYS = frozenset({"foreach", "fused"})


@rule.on(ast.Call, passing=_WAYS)
def optimizer(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not (ctx.names.qualified(call.func) or "").startswith("torch.optim.") or not ctx.program.serves_device:
        return
    asked = [
        word
        for word in call.keywords
        if word.arg in _WAYS and isinstance(word.value, ast.Constant) and word.value.value is True
    ]
    if asked:
        message = (
            f"`{asked[0].arg}=True` calls operations on lists of tensors, which torchax does not implement"
        )
        title = f"remove {' and '.join(f'`{word.arg}=True`' for word in asked)}"
        fix = ctx.rewrite.fix(title, *ctx.rewrite.without_keywords(call, _WAYS))
        yield ctx.finding(asked[0].value, message, fix)
