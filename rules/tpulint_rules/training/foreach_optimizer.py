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

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tpulint.rules_api import Applicability, Context, Finding, Rule
from tpulint.rules_api import matchers as m

if TYPE_CHECKING:
    import libcst as cst

rule = Rule(
    "TPU643",
    "optimizer with `foreach=True` or `fused=True`",
    module=__name__,
    former=("optimizer-over-lists",),
    fix=Applicability.SAFE,
)

_WAYS = frozenset({"foreach", "fused"})
_ASKED = m.Arg(keyword=m.Name("foreach") | m.Name("fused"), value=m.Name("True"))


@rule.on(m.Call(args=[m.ZeroOrMore(), _ASKED, m.ZeroOrMore()]))
def optimizer(found: cst.Call, ctx: Context) -> Iterator[Finding]:
    call = ctx.node(found)
    if not (ctx.names.qualified(call.func) or "").startswith("torch.optim.") or not ctx.program.serves_device:
        return
    asked = [argument for argument in found.args if m.matches(argument, _ASKED)]
    name = ctx.code(asked[0].keyword)
    message = f"`{name}=True` calls operations on lists of tensors, which torchax does not implement"
    title = f"remove {' and '.join(f'`{ctx.code(argument.keyword)}=True`' for argument in asked)}"
    fix = ctx.rewrite.fix(title, *ctx.rewrite.without_keywords(call, _WAYS))
    yield ctx.finding(ctx.node(asked[0].value), message, fix)
