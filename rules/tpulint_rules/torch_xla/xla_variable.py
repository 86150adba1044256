"""Environment variable of torch_xla.

## What it does

Reports environment variables that torch_xla reads, such as `PJRT_DEVICE`, `XLA_USE_BF16` and
`XRT_TPU_CONFIG`, where the program sets or reads them.
It does not report `XLA_FLAGS`, which JAX reads, too.

## Why it matters on TPU

torchax and JAX do not read these variables.
With `XLA_USE_BF16=1` or `XLA_DOWNCAST_BF16=1`, torch_xla computes float32 tensors in bfloat16; torchax
computes them in float32.

## Fix safety

The fix is unsafe, because other programs that this one starts may read the variable.

- The fix removes assignments to the variables. JAX uses a TPU if there is one.
- `os.environ["PJRT_DEVICE"] = "CPU"` becomes `jax.config.update("jax_platforms", "cpu")`.

To compute in bfloat16 again, use `torch.autocast("jax")`, or `model.to(torch.bfloat16)`.

## Without a fix

Code that reads one of the variables may find no value. Remove this code, and entries of dictionaries for
other processes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.torch_xla import NARROWING, VARIABLES
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule, Severity

rule = Rule("XLA113", "environment variable of `torch_xla`", module=__name__, fix=Applicability.UNSAFE)

_READERS = frozenset({"os.environ.get", "os.environ.pop", "os.getenv"})
_DEVICE = "PJRT_DEVICE"


@rule.on(ast.Constant, named=VARIABLES)
def variable(literal: ast.Constant, ctx: Context) -> Iterator[Finding]:
    name, written = str(literal.value), ctx.program.variable_write(literal)
    if written is None:
        if _is_read(literal, ctx):
            message = f"only `torch_xla` reads the environment variable `{name}`, so it may not be set"
            yield ctx.finding(literal, message)
        return
    if isinstance(ctx.parent(literal), ast.Dict) and not ctx.program.runs_on_torch_xla:
        return
    if name in NARROWING:
        message = f"only `torch_xla` reads `{name}`; torchax computes float32 tensors in float32"
    else:
        message = f"only `torch_xla` reads the environment variable `{name}`, not torchax or JAX"
    fix = _fix(name, written.statement, written.value, ctx) if written.statement is not None else None
    severity = Severity.BLOCKS if name == _DEVICE else Severity.COSMETIC
    yield ctx.finding(literal, message, fix, severity=severity)


def _is_read(literal: ast.Constant, ctx: Context) -> bool:
    outer = ctx.parent(literal)
    if isinstance(outer, ast.Subscript):
        return ctx.names.qualified(outer.value) == "os.environ" and isinstance(outer.ctx, ast.Load)
    return isinstance(outer, ast.Call) and ctx.names.qualified(outer.func) in _READERS


def _fix(name: str, statement: ast.stmt, value: ast.expr, ctx: Context) -> Fix | None:
    if name == _DEVICE and isinstance(value, ast.Constant) and value.value == "CPU":
        imports = ctx.rewrite.imports("import jax")
        if imports is None:
            return None
        edit = ctx.rewrite.replace(statement, 'jax.config.update("jax_platforms", "cpu")')
        title = "replace the assignment with a setting of JAX"
        return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
    edit = ctx.rewrite.delete(statement)
    return ctx.rewrite.fix(f"remove the assignment to `{name}`", edit, applicability=Applicability.UNSAFE)
