"""Setting for the memory of GPUs.

## What it does

Reports code that sets one of these environment variables:

- `XLA_PYTHON_CLIENT_PREALLOCATE`
- `XLA_PYTHON_CLIENT_MEM_FRACTION` and `XLA_CLIENT_MEM_FRACTION`
- `XLA_PYTHON_CLIENT_ALLOCATOR`

The rule reports nothing if the setting `keep-gpu` is on.

## Why it matters on TPU

Only JAX on a GPU reads these variables.
On a TPU, they have no effect: JAX allocates memory as it is needed, and an array that does not fit raises
`RESOURCE_EXHAUSTED`.

## Fix safety

The fix is safe: it removes a setting that has no effect on a TPU.

## Without a fix

If the variable is a key of a dictionary, or if its value contains a call, remove the setting by hand.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.jax_platform import MEMORY
from tpulint.rules_api import Applicability, Context, Finding, Rule, Severity

rule = Rule(
    "JAX105",
    "setting for the memory of GPUs",
    module=__name__,
    fix=Applicability.SAFE,
    severity=Severity.COSMETIC,
)


@rule.on(ast.Constant, named=MEMORY)
def setting(node: ast.Constant, ctx: Context) -> Iterator[Finding]:
    found = ctx.program.variable_write(node)
    if found is None or ctx.program.keeps_cuda:
        return
    fix, name = None, str(node.value)
    if found.statement is not None and not any(isinstance(part, ast.Call) for part in ast.walk(found.value)):
        fix = ctx.rewrite.fix(f"remove the setting `{name}`", ctx.rewrite.delete(found.statement))
    yield ctx.finding(node, f"`{name}` configures the memory of GPUs and has no effect on TPU", fix)
