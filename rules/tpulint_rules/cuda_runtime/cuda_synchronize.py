"""`torch.cuda.synchronize()` call.

## What it does

Flags `torch.cuda.synchronize()`, alone or behind a guard such as `if torch.cuda.is_available():`,
`torch.cuda.current_stream().synchronize()` and `torch.accelerator.synchronize()`, and the functions
themselves where they are handed on, as in `wait = torch.cuda.synchronize`.

## Why it matters on TPU

It raises `AssertionError: Torch not compiled with CUDA enabled`.
Behind a guard it is worse: the guard is false, nothing waits, and every time that is measured is the
time to start the work instead of the time to do it.

## Fix safety

Unsafe: the fix waits for all arrays that there are, `jax.block_until_ready(jax.live_arrays())`.
Work whose result is already dropped is not waited for.
Where there are 3000 arrays and all are ready it takes half a millisecond.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix
from tpulint.knowledge.waiting import WAIT_FOR_ALL
from tpulint.model.devices.doors import is_guarded_synchronize
from tpulint.rule import Context, Rule

rule = Rule("TPU201", "`torch.cuda.synchronize()` call", module=__name__, fix=Applicability.UNSAFE)

_EVERYTHING = ("torch.cuda.synchronize", "torch.accelerator.synchronize")
_TITLE = "wait for all arrays with `jax.block_until_ready`"
_STREAMS = ("torch.cuda.current_stream", "torch.cuda.default_stream")


@rule.on(ast.Call, named={"synchronize"})
def synchronize(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not _is_synchronize(call, ctx):
        return
    message = "`torch.cuda.synchronize()` raises without CUDA; behind a guard, times around it are wrong"
    if ctx.qualified_name(call.func) == "torch.accelerator.synchronize":
        message = "`torch.accelerator.synchronize()` raises under torchax"
    yield ctx.finding(call, message, _block_until_ready(call, ctx))


@rule.on(ast.Attribute, named={"synchronize"})
def handed_on(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    outer = ctx.parent(node)
    if ctx.qualified_name(node) not in _EVERYTHING or (isinstance(outer, ast.Call) and outer.func is node):
        return
    imports = ctx.imports("import jax")
    fix = None
    if imports is not None:
        wait = f"lambda *_: {WAIT_FOR_ALL}"
        # A lambda reaches as far as it can: over an `else`, too.
        is_apart = isinstance(outer, ast.Call | ast.keyword | ast.Assign)
        edit = ctx.replace(node, wait if is_apart else f"({wait})")
        fix = ctx.fix(_TITLE, edit, *imports, applicability=Applicability.UNSAFE)
    yield ctx.finding(node, f"`{ctx.text(node)}` raises where it is called", fix)


def _is_synchronize(call: ast.Call, ctx: Context) -> bool:
    name = ctx.qualified_name(call.func)
    if name is not None:
        return name in _EVERYTHING
    stream = call.func.value if isinstance(call.func, ast.Attribute) else None
    return isinstance(stream, ast.Call) and ctx.qualified_name(stream.func) in _STREAMS


def _block_until_ready(call: ast.Call, ctx: Context) -> Fix | None:
    statement = ctx.statement(call)
    is_function = any(isinstance(one, ast.Lambda) for one in ctx.ancestors(call))
    if not isinstance(statement, ast.Expr) and not is_function:
        return None
    outer = ctx.parent(statement)
    whole: ast.expr | ast.stmt = call
    if isinstance(outer, ast.If) and is_guarded_synchronize(ctx.module, outer, ctx.scope):
        whole = outer
    imports = ctx.imports("import jax")
    if imports is None:
        return None
    edit = ctx.replace(whole, WAIT_FOR_ALL)
    return ctx.fix(_TITLE, edit, *imports, applicability=Applicability.UNSAFE)
