"""Default dtype `float64`, which JAX computes in 32 bits.

## What it does

The rule reports these calls in programs that move tensors to a CUDA or torchax device:

- `torch.set_default_dtype(torch.float64)`;
- `torch.set_default_tensor_type` with the CPU type `torch.DoubleTensor`.

The rule does not report files that mention `jax_enable_x64`.
The rule does not report code that creates a single tensor with the dtype `torch.float64`, or converts a
tensor to it.

## Why it matters on TPU

JAX disables 64-bit types by default. A `float64` tensor becomes `float32` when it is moved to the device,
without an error. The tensor is still `float32` after a copy back to the CPU. If the program then combines the
tensor with `float64` tensors on the CPU, the result depends on the operation:

- Matrix products of a `float32` and a `float64` tensor raise an error.
- Other operations raise no error, but their results have 7 correct digits instead of the expected 16.

## Fix safety

The fix is unsafe, because the program becomes slow on a TPU, which has no 64-bit arithmetic unit.
The fix adds `jax.config.update("jax_enable_x64", True)` after the call that sets the default dtype.
The results are then as precise as on the GPU.

## Without a fix

To compute in 64 bits, call `jax.config.update("jax_enable_x64", True)` at the start of the program.
If 32 bits are enough, use `float32` as the default dtype.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule

rule = Rule(
    "TPU621",
    "default dtype `float64`, which JAX computes in 32 bits",
    module=__name__,
    former=("default-of-64-bits",),
    fix=Applicability.UNSAFE,
)

_OPTION = "jax_enable_x64"
_DOUBLES = frozenset({"torch.float64", "torch.double"})


@rule.on(ast.Call, named={"set_default_dtype"})
def default_dtype(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "torch.set_default_dtype" or len(call.args) != 1:
        return
    if _named(call.args[0], ctx) in _DOUBLES:
        yield from _found(call, ctx)


@rule.on(ast.Call, named={"set_default_tensor_type"})
def default_type(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "torch.set_default_tensor_type" or len(call.args) != 1:
        return
    if next(ctx.names.default_tensor_types(call)) == "torch.DoubleTensor":
        yield from _found(call, ctx)


def _named(dtype: ast.expr, ctx: Context) -> str | None:
    """The qualified name of the dtype, also if a variable holds it."""
    if isinstance(dtype, ast.Name):
        bound = ctx.names.lookup(dtype.id)
        values = [binding.value for binding in bound[1]] if bound is not None else []
        if len(values) == 1 and isinstance(values[0], ast.Attribute):
            dtype = values[0]
    return ctx.names.qualified(dtype)


def _found(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.program.serves_device and _OPTION not in ctx.source.text:
        message = (
            "JAX disables 64-bit types by default, so `float64` tensors become `float32` on the device, "
            "without an error"
        )
        yield ctx.finding(call, message, _enabled(call, ctx))


def _enabled(call: ast.Call, ctx: Context) -> Fix | None:
    statement, imports = ctx.statement(call), ctx.rewrite.imports("import jax")
    if imports is None or not isinstance(statement, ast.Expr) or statement.value is not call:
        return None
    edit = ctx.rewrite.insert_after(statement, f'jax.config.update("{_OPTION}", True)')
    title = f'add `jax.config.update("{_OPTION}", True)`, which enables 64-bit types in JAX'
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
