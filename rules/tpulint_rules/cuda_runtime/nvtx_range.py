"""Call of an NVIDIA profiler (NVTX ranges, CUDA profiler).

## What it does

Reports:

- `torch.cuda.nvtx.range`, `range_push`, `range_pop` and `mark`;
- `torch.cuda.profiler`;
- `torch.autograd.profiler.emit_nvtx`;
- `ProfilerActivity.CUDA`.

Code that runs only where CUDA is available is not reported.

## Why it matters on TPU

- The functions of `torch.cuda.nvtx` raise `RuntimeError: NVTX functions not installed. Are you sure you have
  a CUDA build?`.
- The functions of `torch.cuda.profiler` raise `AssertionError: Torch not compiled with CUDA enabled`.
- `torch.profiler` runs, but does not record the work of the TPU.
  With `ProfilerActivity.CUDA` as the only activity, `torch.profiler` raises `AssertionError: No activities
  specified for the profiler`.

## Fix safety

The fix changes no value that the program computes.
The fix is unsafe, because the profile of the fixed program shows other ranges:

- `with torch.cuda.nvtx.range(name)` becomes `with jax.profiler.TraceAnnotation(name)`.
  A JAX profile shows the range `name` in the row of the host.
- The fix removes `range_push`, `range_pop` and `mark`, so the profile no longer shows their ranges.

## Without a fix

- To write a profile for TensorBoard or XProf, put the training steps into a `with
  jax.profiler.trace("/tmp/profile"):` block.
- To name operations in compiled code, use `jax.named_scope(name)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule, Severity

rule = Rule(
    "TPU207",
    "call of an NVIDIA profiler (NVTX ranges, CUDA profiler)",
    module=__name__,
    fix=Applicability.UNSAFE,
    targets=EVERY_TARGET,
)

_REMOVED = frozenset(
    {
        "torch.cuda.nvtx.range_push",
        "torch.cuda.nvtx.range_pop",
        "torch.cuda.nvtx.mark",
        "torch.cuda.profiler.start",
        "torch.cuda.profiler.stop",
        "torch.cuda.profiler.init",
    }
)
_CONTEXTS = frozenset(
    {"torch.cuda.nvtx.range", "torch.cuda.profiler.profile", "torch.autograd.profiler.emit_nvtx"}
)
_OTHERS = frozenset({"torch.cuda.nvtx.range_start", "torch.cuda.nvtx.range_end"})
_CALLS = _REMOVED | _CONTEXTS | _OTHERS
_ACTIVITIES = frozenset(
    {"torch.profiler.ProfilerActivity.CUDA", "torch.autograd.profiler.ProfilerActivity.CUDA"}
)


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in _CALLS))
def nvidia_tool(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in _CALLS or ctx.devices.only_with_cuda(call):
        return
    yield ctx.finding(
        call, f"`{name}` raises on a TPU host; profile with `jax.profiler` instead", _fix(call, name, ctx)
    )


@rule.on(ast.Attribute, named={"CUDA"})
def activity(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(node) not in _ACTIVITIES or ctx.devices.only_with_cuda(node):
        return
    yield ctx.finding(
        node,
        "`ProfilerActivity.CUDA` records nothing on TPU; profile with `jax.profiler.trace` instead",
        severity=Severity.COSMETIC,
    )


def _fix(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    statement = ctx.statement(call)
    if name in _REMOVED and isinstance(statement, ast.Expr) and statement.value is call:
        title = f"remove the call to `{name}`"
        return ctx.rewrite.fix(title, ctx.rewrite.delete(statement), applicability=Applicability.UNSAFE)
    item = ctx.parent(call)
    if not isinstance(item, ast.withitem) or not isinstance(statement, ast.With):
        return None
    if name != "torch.cuda.nvtx.range":
        edits = ctx.rewrite.unwrap(statement, item)
        title = f"remove the context manager `{name}` and keep the code inside"
        return (
            ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE) if edits is not None else None
        )
    imports = ctx.rewrite.imports("import jax")
    if imports is None or len(call.args) != 1 or call.keywords:
        return None
    edit = ctx.rewrite.replace(call.func, "jax.profiler.TraceAnnotation")
    title = f"replace `{name}` with `jax.profiler.TraceAnnotation`"
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
