"""`torch.cuda.synchronize()` call.

## What it does

Flags `torch.cuda.synchronize()`, alone or behind a guard such as `if torch.cuda.is_available():`,
`torch.cuda.current_stream().synchronize()` and `torch.accelerator.synchronize()`.

## Why it matters on TPU

It raises `AssertionError: Torch not compiled with CUDA enabled`.
Behind a guard it is worse: the guard is false, nothing waits, and every time that is measured is the
time to start the work instead of the time to do it.
JAX has no wait for everything; `jax.block_until_ready` waits for the values that it is given.

## Fix safety

Unsafe: the fix waits for what the function computed since the last synchronisation (or for its
arguments where it computed nothing), found by following the assignments.
Work that nothing in the function names is not waited for, and a tensor on the host among them raises
`AssertionError`.
There is no fix where the function holds no value to wait for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix
from tpulint.model.devices import is_guarded_synchronize
from tpulint.model.kinds import Tensor, Unknown
from tpulint.model.scopes import FunctionNode, parameters
from tpulint.rule import Context, Rule

rule = Rule("TPU201", "`torch.cuda.synchronize()` call", module=__name__, fix=Applicability.UNSAFE)

_EVERYTHING = ("torch.cuda.synchronize", "torch.accelerator.synchronize")
_STREAMS = ("torch.cuda.current_stream", "torch.cuda.default_stream")


@rule.on(ast.Call, named={"synchronize"})
def synchronize(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not _is_synchronize(call, ctx):
        return
    message = "`torch.cuda.synchronize()` raises without CUDA; behind a guard, times around it are wrong"
    if ctx.qualified_name(call.func) == "torch.accelerator.synchronize":
        message = "`torch.accelerator.synchronize()` raises under torchax"
    yield ctx.finding(call, message, _block_until_ready(call, ctx))


def _is_synchronize(call: ast.Call, ctx: Context) -> bool:
    name = ctx.qualified_name(call.func)
    if name is not None:
        return name in _EVERYTHING
    stream = call.func.value if isinstance(call.func, ast.Attribute) else None
    return isinstance(stream, ast.Call) and ctx.qualified_name(stream.func) in _STREAMS


def _block_until_ready(call: ast.Call, ctx: Context) -> Fix | None:
    statement = ctx.statement(call)
    if not isinstance(statement, ast.Expr) or statement.value is not call:
        return None
    outer = ctx.parent(statement)
    whole: ast.stmt = statement
    if isinstance(outer, ast.If) and is_guarded_synchronize(ctx.module, outer, ctx.scope):
        whole = outer
    names = ctx.pending(whole, lambda before: _synchronizes(before, ctx)) or _arguments(ctx)
    imports = ctx.imports("import jax", "import torchax")
    if not names or imports is None:
        return None
    waited = names[0] if len(names) == 1 else f"({', '.join(names)})"
    edit = ctx.replace(whole, f"torchax.interop.call_jax(jax.block_until_ready, {waited})")
    title = f"wait for `{waited}` with `jax.block_until_ready`"
    return ctx.fix(title, edit, *imports, applicability=Applicability.UNSAFE)


def _synchronizes(statement: ast.stmt, ctx: Context) -> bool:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    name = ctx.qualified_name(statement.value.func)
    return name in (*_EVERYTHING, "torchax.interop.call_jax")


def _arguments(ctx: Context) -> list[str]:
    """Parameters that hold tensors, or may."""
    function = ctx.scope.function
    if function is None or not isinstance(function.node, FunctionNode):
        return []
    flow = ctx.module.flow(function)
    found = []
    for argument in parameters(function.node):
        kind = flow.initial.get(argument.arg, Unknown()) if flow is not None else Unknown()
        passed_on = argument is function.node.args.vararg and any(
            isinstance(node, ast.Name) and node.id == argument.arg for node in ast.walk(function.node)
        )
        if isinstance(kind, Tensor) or passed_on:
            found.append(argument.arg)
    return found
