"""`assert` on a tensor's value in traced code.

## What it does

Reports `assert`, `torch._assert` and `torch._assert_async` in traced code, if the condition depends on the
values of a tensor.
Traced code is code that JAX traces to compile it, such as a model's `forward`.
Assertions on shapes, dtypes and types are not reported, because shapes, dtypes and types are known while JAX
traces the code.

## Why it matters on TPU

While JAX traces a function, its tensors are tracers: they have a shape and a dtype, but no values.

- In jitted code, an assertion on a tensor's value raises `jax.errors.TracerBoolConversionError` (in older JAX
  versions, `ConcretizationTypeError`).
- torchax does not implement `torch._assert_async`, which raises `OperatorNotFound`.
- A guard such as `if not torch.jit.is_tracing():` does not prevent these errors: `torch.jit.is_tracing()` is
  true only for TorchScript, which torchax does not use.

## Fix safety

The fix is unsafe: it removes the assertion, so the program no longer checks the condition.
To keep the check, move the assertion out of the traced function, to the line before the call of this
function, or use `jax.experimental.checkify`.

## Without a fix

A call of `torch._assert` or `torch._assert_async` that is part of a larger expression has no fix.
Remove the assertion by hand, or move it out of the traced function, to the line before the call of this
function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Finding, Rule

rule = Rule(
    "TPU304", "`assert` on a tensor's value in traced code", module=__name__, fix=Applicability.UNSAFE
)

_NO_VALUE = "depends on a tensor's value, which is not available while JAX traces the code"


@rule.on(ast.Assert, traced=True, handled="values of tensors in Python code")
def assertion(node: ast.Assert, ctx: Context) -> Iterator[Finding]:
    if ctx.types.needs_value(node.test) is None:
        return
    fix = ctx.rewrite.fix(
        "remove the `assert` statement", ctx.rewrite.delete(node), applicability=Applicability.UNSAFE
    )
    yield ctx.finding(node, f"`assert` {_NO_VALUE}", fix)


@rule.on(ast.Call, named={"_assert", "_assert_async"}, traced=True)
def called(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in ("torch._assert", "torch._assert_async") or not call.args:
        return
    if ctx.types.needs_value(call.args[0]) is None:
        return
    statement = ctx.parent(call)
    fix = None
    if isinstance(statement, ast.Expr):
        title = f"remove the call to `{name}`"
        fix = ctx.rewrite.fix(title, ctx.rewrite.delete(statement), applicability=Applicability.UNSAFE)
    if fix is not None or not ctx.program.runtime_handles("checks by `torch._assert`", name):
        yield ctx.finding(call, f"`{name}` {_NO_VALUE}", fix)
