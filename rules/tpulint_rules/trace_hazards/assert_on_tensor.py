"""`assert` on a tensor's value in traced code.

## What it does

Flags `assert`, `torch._assert` and `torch._assert_async` whose condition is the value of a tensor, in code
that tracing reaches.
Assertions on shapes, dtypes and types hold while tracing and are left alone.

## Why it matters on TPU

The assertion needs a value, and a tracer has none: `jax.errors.TracerBoolConversionError` (older:
`ConcretizationTypeError`) under jit.
`torch._assert_async` has no lowering on torchax: `OperatorNotFound`.
`if not torch.jit.is_tracing():` around it does not help, since torchax does not trace with TorchScript.

## Fix safety

Unsafe: the assertion is removed, and with it the check.
To keep the check, make it before the traced function is called, or use `jax.experimental.checkify`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding
from tpulint.model.values.uses import concretized
from tpulint.rule import Context, Rule

rule = Rule(
    "TPU304", "`assert` on a tensor's value in traced code", module=__name__, fix=Applicability.UNSAFE
)


@rule.on(ast.Assert, traced=True)
def assertion(node: ast.Assert, ctx: Context) -> Iterator[Finding]:
    if concretized(ctx.module, node.test, ctx.scope) is None:
        return
    fix = ctx.fix("remove the assertion", ctx.delete(node), applicability=Applicability.UNSAFE)
    yield ctx.finding(node, "`assert` on a tensor's value, which a tracer does not have", fix)


@rule.on(ast.Call, named={"_assert", "_assert_async"}, traced=True)
def called(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.qualified_name(call.func)
    if name not in ("torch._assert", "torch._assert_async") or not call.args:
        return
    if concretized(ctx.module, call.args[0], ctx.scope) is None:
        return
    statement = ctx.parent(call)
    fix = None
    if isinstance(statement, ast.Expr):
        fix = ctx.fix("remove the assertion", ctx.delete(statement), applicability=Applicability.UNSAFE)
    yield ctx.finding(call, f"`{name}` on a tensor's value, which a tracer does not have", fix)
