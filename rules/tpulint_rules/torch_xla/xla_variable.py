"""Environment variable of torch_xla.

## What it does

Reports environment variables that torch_xla reads, such as `PJRT_DEVICE`, `XLA_USE_BF16` and
`XRT_TPU_CONFIG`, where the program sets or reads them with `os.environ` or `os.getenv`.
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

Code that reads one of the variables finds no value. Remove this code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.torch_xla import NARROWING, VARIABLES
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule

rule = Rule("XLA113", "environment variable of `torch_xla`", module=__name__, fix=Applicability.UNSAFE)

_SETTERS = frozenset({"os.environ.setdefault", "os.putenv"})
_READERS = frozenset({"os.environ.get", "os.environ.pop", "os.getenv"})
_DEVICE = "PJRT_DEVICE"


@rule.on(ast.Constant, named=VARIABLES)
def variable(literal: ast.Constant, ctx: Context) -> Iterator[Finding]:
    name, outer, statement = str(literal.value), ctx.parent(literal), ctx.statement(literal)
    value: ast.expr | None = None
    is_set = False
    if isinstance(outer, ast.Subscript) and ctx.names.qualified(outer.value) == "os.environ":
        if isinstance(statement, ast.Assign) and statement.targets == [outer]:
            value, is_set = statement.value, True
    elif isinstance(outer, ast.Call) and outer.args and outer.args[0] is literal:
        called = ctx.names.qualified(outer.func)
        if called not in _SETTERS | _READERS:
            return
        if called in _SETTERS and isinstance(statement, ast.Expr) and len(outer.args) == 2:
            value, is_set = outer.args[1], True
    else:
        return
    if name in NARROWING and is_set:
        message = f"only torch_xla reads `{name}`; torchax computes in float32, unless told otherwise"
    else:
        message = f"only torch_xla reads the environment variable `{name}`, not torchax or JAX"
    fix = _fix(literal, value, statement, ctx) if is_set else None
    yield ctx.finding(literal, message, fix)


def _fix(literal: ast.Constant, value: ast.expr | None, statement: ast.stmt, ctx: Context) -> Fix | None:
    name = str(literal.value)
    if name == _DEVICE and isinstance(value, ast.Constant) and value.value == "CPU":
        imports = ctx.rewrite.imports("import jax")
        if imports is None:
            return None
        edit = ctx.rewrite.replace(statement, 'jax.config.update("jax_platforms", "cpu")')
        title = "tell JAX to use the CPU instead"
        return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
    edit = ctx.rewrite.delete(statement)
    return ctx.rewrite.fix(f"remove the assignment to `{name}`", edit, applicability=Applicability.UNSAFE)
