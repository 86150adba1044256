"""Default dtype of 64 bits, which torchax computes in 32.

## What it does

Flags `torch.set_default_dtype(torch.float64)`, and `torch.set_default_tensor_type` of doubles on the host, in
programs that put something on a device.
Files that mention `jax_enable_x64` are left alone, and so are tensors that are made double one by one.

## Why it matters on TPU

JAX has 32 bits unless it is told otherwise: what goes to the device is `float32` there, without a word, and
still is when it comes back, where it meets the host's `float64`.
Matrix products of the two raise; the rest has 7 digits where the program was written for 16.

## Fix safety

Unsafe: `jax.config.update("jax_enable_x64", True)` is added behind it.
The numbers are the GPU's then; a TPU has no unit for 64 bits, and is slow with them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix
from tpulint.model.devices.literals import default_types
from tpulint.rule import Context, Rule

rule = Rule(
    "TPU621",
    "default dtype of 64 bits, which torchax computes in 32",
    module=__name__,
    former=("default-of-64-bits",),
    fix=Applicability.UNSAFE,
)

_OPTION = "jax_enable_x64"
_DOUBLES = frozenset({"torch.float64", "torch.double"})


@rule.on(ast.Call, named={"set_default_dtype"})
def default_dtype(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.qualified_name(call.func) != "torch.set_default_dtype" or len(call.args) != 1:
        return
    if _named(call.args[0], ctx) in _DOUBLES:
        yield from _found(call, ctx)


@rule.on(ast.Call, named={"set_default_tensor_type"})
def default_type(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.qualified_name(call.func) != "torch.set_default_tensor_type" or len(call.args) != 1:
        return
    if next(default_types(ctx.module.names, [(call, ctx.scope)])) == "torch.DoubleTensor":
        yield from _found(call, ctx)


def _named(dtype: ast.expr, ctx: Context) -> str | None:
    """The dtype's full name, where a variable has it, too."""
    if isinstance(dtype, ast.Name):
        bound = ctx.module.names.lookup(dtype.id, ctx.scope)
        values = [binding.value for binding in bound[1]] if bound is not None else []
        if len(values) == 1 and isinstance(values[0], ast.Attribute):
            dtype = values[0]
    return ctx.qualified_name(dtype)


def _found(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.serves_device and _OPTION not in ctx.module.source.text:
        message = "JAX has 32 bits unless it is told otherwise: what is on the device is `float32`"
        yield ctx.finding(call, message, _enabled(call, ctx))


def _enabled(call: ast.Call, ctx: Context) -> Fix | None:
    statement, imports = ctx.statement(call), ctx.imports("import jax")
    if imports is None or not isinstance(statement, ast.Expr) or statement.value is not call:
        return None
    before = ctx.module.source.ahead_of(statement)
    gap = "; " if before.strip() else f"{ctx.module.source.newline}{before}"
    edit = ctx.insert(ctx.span(statement).end, f'{gap}jax.config.update("{_OPTION}", True)')
    return ctx.fix("use 64 bits in JAX", edit, *imports, applicability=Applicability.UNSAFE)
