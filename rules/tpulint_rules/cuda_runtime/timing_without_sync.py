"""Time measured without waiting for the device.

## What it does

Reports the difference of two clock readings if both conditions hold:

- The code between the two clock readings starts work on the device.
- Between the two clock readings, the program does not wait for this work.
  A program waits if it reads the value of a tensor or synchronizes.
  A call of a function that might read a value or synchronize counts as waiting, too.

tpulint checks only files that put tensors on a CUDA or torchax device or jit a function.

## Why it matters on TPU

JAX returns results before they are ready, so the measured time is only the time to dispatch the work.
For example, a product of two 3000 by 3000 matrices took 0.86 seconds on JAX's CPU backend, but a program that
did not wait for the product measured 0.03 seconds.
There is no error; the only symptom is that the measured times are too short.

## Fix safety

The fixed program waits for all arrays before the second clock reading.
The fix is unsafe, because this wait takes time, and because the measured time can still be wrong:

- If the program no longer references the result of a computation, the fixed program does not wait for this
  computation, so the measured time may be too short.
- The measured time of the first call of a jitted function includes tracing and compilation.
  Call a jitted function once before you measure its time.

## Without a fix

Assign the result of the measured computation to a variable, and call
`jax.block_until_ready(jax.live_arrays())` before the second clock reading.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tensors import FACTORIES, READS
from tpulint.knowledge.tracing import TRACE_ENTRIES
from tpulint.knowledge.waiting import WAIT_FOR_ALL
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule, Tensor, Unknown
from tpulint.rules_api.syntax import statements

rule = Rule(
    "TPU208",
    "time measured without waiting for the device",
    module=__name__,
    former=("time-without-wait",),
    fix=Applicability.UNSAFE,
)

_CLOCKS = frozenset(
    {
        "time.monotonic",
        "time.monotonic_ns",
        "time.perf_counter",
        "time.perf_counter_ns",
        "time.time",
        "time.time_ns",
        "timeit.default_timer",
    }
)
_HARMLESS = frozenset(
    {
        "builtins.enumerate",
        "builtins.getattr",
        "builtins.hasattr",
        "builtins.isinstance",
        "builtins.len",
        "builtins.range",
        "builtins.super",
        "builtins.type",
        "builtins.zip",
    }
)
_TO_HOST = READS | {"cpu", "to", "numpy", "synchronize", "wait"}


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in _CLOCKS))
def reading(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) not in _CLOCKS or ctx.trace.path is not None:
        return
    statement = ctx.statement(call)
    start = _start(call, statement, ctx)
    if start is None:
        return
    block = ctx.block(statement)
    begin = _begin(block, start, statement, ctx)
    if begin is None:
        return
    between = block[block.index(begin) + 1 : block.index(statement)]
    if not any(_works(part, ctx) for part in between):
        return
    if not ctx.program.places_tensors and not any(_calls_jitted(part, ctx) for part in between):
        return
    if any(_may_wait(part, ctx) for part in between):
        return
    message = "JAX runs asynchronously, so the clock is read before the TPU has finished the work"
    yield ctx.finding(call, message, _wait(begin, statement, ctx))


def _start(call: ast.Call, statement: ast.stmt, ctx: Context) -> str | None:
    """The variable with the earlier reading of the clock that is subtracted; None if there is none."""
    outer = ctx.parent(call)
    if isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Sub) and outer.left is call:
        return outer.right.id if isinstance(outer.right, ast.Name) else None
    if not isinstance(statement, ast.Assign) or statement.value is not call or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name):
        return None
    for later in statements(ctx.block(statement)):
        for node in ast.walk(later):
            if (
                isinstance(node, ast.BinOp)
                and isinstance(node.op, ast.Sub)
                and isinstance(node.left, ast.Name)
                and isinstance(node.right, ast.Name)
                and node.left.id == target.id
            ):
                return node.right.id
    return None


def _begin(block: list[ast.stmt], start: str, end: ast.stmt, ctx: Context) -> ast.stmt | None:
    """The statement before this one that reads the clock into that variable; None if there is none."""
    position = next(number for number, item in enumerate(block) if item is end)
    for number in range(position - 1, -1, -1):
        before = block[number]
        stores = any(
            isinstance(node, ast.Name) and node.id == start and isinstance(node.ctx, ast.Store)
            for node in ast.walk(before)
        )
        if stores:
            clock = (
                isinstance(before, ast.Assign)
                and isinstance(before.value, ast.Call)
                and ctx.names.qualified(before.value.func) in _CLOCKS
            )
            return before if clock else None
    return None


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement and of its blocks, without functions that it only defines."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        yield node
        waiting.extend(ast.iter_child_nodes(node))


def _works(statement: ast.stmt, ctx: Context) -> bool:
    """Whether a statement in between certainly starts work on the device."""
    return any(_is_work(node, ctx) for node in _own(statement))


def _is_work(node: ast.AST, ctx: Context) -> bool:
    """Whether the node certainly starts work on the device."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult) and ctx.types.of(node).is_traced
    if not isinstance(node, ast.Call):
        return False
    if _is_jitted(node, ctx) or ctx.types.is_module(ctx.types.of(node.func)):
        return True
    if not ctx.types.of(node).is_traced:
        return False
    name = ctx.names.qualified(node.func)
    if name is not None:
        return name.startswith("torch.") and name.removeprefix("torch.") not in FACTORIES
    return isinstance(node.func, ast.Attribute) and isinstance(ctx.types.of(node.func.value), Tensor)


def _calls_jitted(statement: ast.stmt, ctx: Context) -> bool:
    """Whether a statement in between calls a compiled function."""
    return any(isinstance(node, ast.Call) and _is_jitted(node, ctx) for node in _own(statement))


def _is_jitted(call: ast.Call, ctx: Context) -> bool:
    """Whether the called name is the result of a function that compiles."""
    if not isinstance(call.func, ast.Name):
        return False
    found = ctx.names.lookup(call.func.id)
    values = [binding.value for binding in found[1]] if found is not None else []
    return len(values) == 1 and (
        isinstance(values[0], ast.Call) and ctx.names.qualified(values[0].func) in TRACE_ENTRIES
    )


def _may_wait(statement: ast.stmt, ctx: Context) -> bool:
    """Whether a statement in between may wait for the device (a read, a print, or unknown code)."""
    for node in _own(statement):
        if isinstance(node, ast.Await | ast.Yield | ast.YieldFrom | ast.Return | ast.Raise):
            return True
        read: ast.expr | None = None
        if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
            read = node.test
        elif isinstance(node, ast.FormattedValue):
            read = node.value
        if read is not None and isinstance(ctx.types.of(read), Tensor | Unknown):
            return True
        if isinstance(node, ast.With) and not all(_is_torch(item.context_expr, ctx) for item in node.items):
            return True
        if isinstance(node, ast.Call) and _call_may_wait(node, ctx):
            return True
    return False


def _is_torch(node: ast.expr, ctx: Context) -> bool:
    """Whether the context is one of torch or `contextlib`."""
    called = node.func if isinstance(node, ast.Call) else node
    return (ctx.names.qualified(called) or "").startswith(("torch.", "contextlib."))


def _call_may_wait(call: ast.Call, ctx: Context) -> bool:
    """Whether the call may wait for the device."""
    if _is_jitted(call, ctx) or ctx.types.is_module(ctx.types.of(call.func)):
        return False
    name = ctx.names.qualified(call.func)
    if name is not None:
        if name in ("torch.save", "torch.cuda.synchronize") or name.rpartition(".")[2] in _TO_HOST:
            return True
        return not (name.startswith(("torch.", "time.")) or name in _HARMLESS)
    if not isinstance(call.func, ast.Attribute):
        return True
    if isinstance(ctx.types.of(call.func.value), Tensor):
        return call.func.attr in _TO_HOST
    return call.func.attr != "append"


def _wait(begin: ast.stmt, statement: ast.stmt, ctx: Context) -> Fix | None:
    is_named = bool(ctx.devices.pending(statement, lambda before: before is begin))
    imports = ctx.rewrite.imports("import jax")
    if not is_named or imports is None or ctx.source.ahead_of(statement).strip():
        return None
    title = f"add `{WAIT_FOR_ALL}` before the clock is read"
    return ctx.rewrite.fix(
        title,
        ctx.rewrite.insert_before(statement, WAIT_FOR_ALL),
        *imports,
        applicability=Applicability.UNSAFE,
    )
