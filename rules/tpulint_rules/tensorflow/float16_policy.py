"""Mixed precision with float16 in Keras.

## What it does

Reports the policy `mixed_float16` of Keras: in `set_global_policy`, `set_policy`, `Policy` and `DTypePolicy`,
and as the `dtype` of a layer.

## Why it matters on TPU

TPUs multiply matrices in bfloat16, and not in float16.
With `mixed_float16`, Keras also wraps the optimizer into a `LossScaleOptimizer`.
bfloat16 does not need it, because it has the range of float32.

The optimizer was measured with Keras 3.15.1.

## Fix safety

The fix writes `mixed_bfloat16`.
It is unsafe: bfloat16 has fewer digits than float16, so results change.

The rule has no fix with the setting `keep-gpu`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Finding, Rule

rule = Rule(
    "TF111",
    "mixed precision with float16 in Keras",
    module=__name__,
    fix=Applicability.UNSAFE,
)

_POLICIES = ("Policy", "DTypePolicy", "set_global_policy", "set_policy", "set_dtype_policy")
_ROOTS = ("tensorflow.keras.", "keras.")


@rule.on(ast.Constant, named={"mixed_float16"})
def policy(node: ast.Constant, ctx: Context) -> Iterator[Finding]:
    outer = ctx.parent(node)
    call = ctx.parent(outer) if isinstance(outer, ast.keyword) else outer
    if not isinstance(call, ast.Call):
        return
    name = ctx.names.qualified(call.func) or ""
    is_dtype = isinstance(outer, ast.keyword) and outer.arg == "dtype"
    if not name.startswith(_ROOTS) or not (is_dtype or name.endswith(_POLICIES)):
        return
    fix = None
    if not ctx.program.keeps_cuda:
        edit = ctx.rewrite.replace(node, ctx.rewrite.quoted("mixed_bfloat16", node))
        title = "use the policy `mixed_bfloat16`"
        fix = ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)
    yield ctx.finding(
        node, "`mixed_float16` computes in float16, but TPUs compute in bfloat16: use `mixed_bfloat16`", fix
    )
