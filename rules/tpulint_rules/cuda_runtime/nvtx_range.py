"""Range or profile for NVIDIA's tools.

## What it does

Flags `torch.cuda.nvtx.range`, `range_push`, `range_pop` and `mark`, `torch.cuda.profiler`,
`torch.autograd.profiler.emit_nvtx` and `ProfilerActivity.CUDA`.
What a condition lets run only where there is CUDA is left alone.

## Why it matters on TPU

The functions of `nvtx` raise `RuntimeError: NVTX functions not installed. Are you sure you have a CUDA
build?`, those of `torch.cuda.profiler` `AssertionError: Torch not compiled with CUDA enabled`.
`torch.profiler` runs, but sees no work of the TPU; with `ProfilerActivity.CUDA` alone it raises
`AssertionError: No activities specified for the profiler`.

## Fix safety

Unsafe: `with torch.cuda.nvtx.range(name)` becomes `jax.profiler.TraceAnnotation(name)`, which marks the
range on the host's line of a JAX profile; pushes, pops and marks are removed, and their ranges with them.
Values never change.

## Without a fix

`with jax.profiler.trace("/tmp/profile"):` around the steps to look at writes a profile for TensorBoard or
XProf; `jax.named_scope(name)` names what is compiled.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix
from tpulint.rule import Context, Rule

rule = Rule("TPU207", "range or profile for NVIDIA's tools", module=__name__, fix=Applicability.UNSAFE)

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
    name = ctx.qualified_name(call.func)
    if name not in _CALLS or ctx.only_with_cuda(call):
        return
    yield ctx.finding(call, f"`{name}` raises without CUDA", _fix(call, name, ctx))


@rule.on(ast.Attribute, named={"CUDA"})
def activity(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    if ctx.qualified_name(node) not in _ACTIVITIES or ctx.only_with_cuda(node):
        return
    yield ctx.finding(node, "`ProfilerActivity.CUDA` sees nothing on TPU; JAX's profiler does")


def _fix(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    statement = ctx.statement(call)
    if name in _REMOVED and isinstance(statement, ast.Expr) and statement.value is call:
        title = f"remove `{name.rpartition('.')[2]}`"
        return ctx.fix(title, ctx.delete(statement), applicability=Applicability.UNSAFE)
    item = ctx.parent(call)
    if not isinstance(item, ast.withitem) or not isinstance(statement, ast.With):
        return None
    if name != "torch.cuda.nvtx.range":
        edits = ctx.unwrap(statement, item)
        title = f"remove `{name.rpartition('.')[2]}`"
        return ctx.fix(title, *edits, applicability=Applicability.UNSAFE) if edits is not None else None
    imports = ctx.imports("import jax")
    if imports is None or len(call.args) != 1 or call.keywords:
        return None
    edit = ctx.replace(call.func, "jax.profiler.TraceAnnotation")
    title = "use `jax.profiler.TraceAnnotation`"
    return ctx.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
