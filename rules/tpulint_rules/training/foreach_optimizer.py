"""Optimizer that asks for operations over lists of tensors.

## What it does

Flags `foreach=True` and `fused=True` of the optimizers in `torch.optim`, in programs that put something on a
device.

## Why it matters on TPU

Torchax has no operation over a list of tensors: the first step raises `OperatorNotFound: Operator with name
aten::_foreach_add.List has no lowering`.

## Fix safety

Safe: without the argument torch takes the way over single tensors, which computes the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding
from tpulint.rule import Context, Rule

rule = Rule(
    "TPU643",
    "optimizer that asks for operations over lists of tensors",
    module=__name__,
    former=("optimizer-over-lists",),
    fix=Applicability.SAFE,
)

_WAYS = frozenset({"foreach", "fused"})


@rule.on(ast.Call, passing=_WAYS)
def optimizer(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not (ctx.qualified_name(call.func) or "").startswith("torch.optim.") or not ctx.serves_device:
        return
    asked = [
        word
        for word in call.keywords
        if word.arg in _WAYS and isinstance(word.value, ast.Constant) and word.value.value is True
    ]
    if asked:
        message = f"`{asked[0].arg}=True` asks for operations over lists, which torchax does not have"
        fix = ctx.fix("leave it out", ctx.without_keywords(call, _WAYS))
        yield ctx.finding(asked[0].value, message, fix)
