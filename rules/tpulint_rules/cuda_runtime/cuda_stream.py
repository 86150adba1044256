"""Use of a CUDA stream or a CUDA graph.

## What it does

Reports:

- streams: `torch.cuda.Stream`, `torch.cuda.stream(...)`, `torch.cuda.current_stream()`, and method calls on
  streams;
- graphs: `torch.cuda.CUDAGraph`, `torch.cuda.graph(...)` and `torch.cuda.make_graphed_callables`;
- the query `torch.cuda.is_current_stream_capturing()`.

Code that runs only where CUDA is available is not reported.

## Why it matters on TPU

On a host without CUDA, the use of a CUDA stream or a CUDA graph raises one of these errors:

- `RuntimeError: torch.cuda.Stream requires CUDA support`
- `AssertionError: Torch not compiled with CUDA enabled`
- `RuntimeError: Tried to instantiate dummy base class CUDAGraph`

JAX needs no streams.
JAX starts computations in the order of the program, and each call returns before its result is ready.
Even without streams, transfers therefore run at the same time as computations.

A CUDA graph launches many kernels at once.
On TPU, `torchax.interop.jax_jit` replaces a CUDA graph: it compiles a whole function to one program.

## Fix safety

The fix is unsafe:

- The fix removes a stream, together with the calls that wait for the stream.
  For this fix, the stream must be a variable or an attribute of `self`, and the file must use the stream only
  to order work.
  In the fixed program, code that reads the value of a tensor still waits for the computation of the value.
  If the program measures time, and a removed call was the only call that waited for the device, the measured
  time becomes too short.
- If the program keeps streams in lists or passes them to functions, the fix replaces the streams with objects
  that do nothing.
  The class of these objects is `torchax_compat.cuda.Stream`, of the runtime torchax-compat.
- The fix replaces `torch.cuda.is_current_stream_capturing()` with `False`.

## Without a fix

A CUDA graph has no fix.
Replace the graph with a function that takes the input tensors of the graph as arguments, and that returns the
tensors into which the graph writes.
Compile this function with `torchax.interop.jax_jit(function)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.runtime import PACKAGE
from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Instance, Rule
from tpulint.rules_api.syntax import is_name

rule = Rule("TPU203", "use of a CUDA stream or a CUDA graph", module=__name__, fix=Applicability.UNSAFE)

_CUDA = f"{PACKAGE}.cuda"
_MADE = frozenset(
    {"torch.Stream", "torch.cuda.Stream", "torch.cuda.ExternalStream", "torch.cuda.streams.Stream"}
)
_ASKED = frozenset({"torch.cuda.current_stream", "torch.cuda.default_stream"})
_ENTERED = frozenset({"torch.cuda.stream", "torch.cuda.StreamContext"})
_GRAPHS = frozenset(
    {
        "torch.cuda.CUDAGraph",
        "torch.cuda.graph",
        "torch.cuda.graphs.CUDAGraph",
        "torch.cuda.graphs.graph",
        "torch.cuda.graph_pool_handle",
        "torch.cuda.make_graphed_callables",
    }
)
_CAPTURING = "torch.cuda.is_current_stream_capturing"
_ORDERS = frozenset({"wait_stream", "wait_event", "record_stream"})
_REMOVE = "remove the CUDA stream and all code that uses it"


def _last(names: frozenset[str]) -> frozenset[str]:
    return frozenset(name.rpartition(".")[2] for name in names)


@rule.on(ast.Call, named=_last(_MADE | _ASKED | _ENTERED))
def stream(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if (
        name not in _MADE | _ASKED | _ENTERED
        or ctx.devices.only_with_cuda(call)
        or ctx.devices.is_caught(call)
    ):
        return
    if name in _ENTERED and not (call.args and _is_stream(call.args[0], ctx)):
        return  # `torch.cuda.stream(None)` does nothing, with CUDA or without
    if name in _ASKED and _is_synchronized(call, ctx):
        return
    fix = _fix(call, name, ctx) or _stand_in(call, name, ctx)
    yield ctx.finding(
        call, f"`{name}` raises on a TPU host; JAX needs no streams, because it orders operations itself", fix
    )


@rule.on(ast.Call, named=_last(_GRAPHS))
def graph(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name in _GRAPHS and not ctx.devices.only_with_cuda(call) and not ctx.devices.is_caught(call):
        message = f"`{name}` raises on a TPU host; compile a function with `torchax.interop.jax_jit` instead"
        yield ctx.finding(call, message)


@rule.on(ast.Call, named={_CAPTURING.rpartition(".")[2]})
def capturing(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if (
        ctx.names.qualified(call.func) != _CAPTURING
        or ctx.devices.only_with_cuda(call)
        or ctx.devices.is_caught(call)
    ):
        return
    title = f"replace `{_CAPTURING}()` with `False`"
    fix = ctx.rewrite.fix(title, ctx.rewrite.replace(call, "False"), applicability=Applicability.UNSAFE)
    yield ctx.finding(call, f"`{_CAPTURING}` raises on a TPU host, which has no CUDA graphs", fix)


def _is_stream(node: ast.expr, ctx: Context) -> bool:
    """Whether the expression is known to be a CUDA stream."""
    return ctx.types.of(node) == Instance("torch.cuda.Stream")


def _is_synchronized(call: ast.Call, ctx: Context) -> bool:
    """Whether the stream is waited for with `synchronize`, which is reported instead."""
    outer = ctx.parent(call)
    return isinstance(outer, ast.Attribute) and outer.attr == "synchronize"


def _stand_in(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    """The fix that replaces the stream with an object that may be stored and passed on."""
    imports = ctx.rewrite.runtime_import()
    if imports is None or _goes_later(call, ctx):
        return None
    instead = "Stream" if name in _MADE else "current_stream" if name in _ASKED else "stream"
    made = ctx.rewrite.replace(call.func, f"{_CUDA}.{instead}")
    title = f"replace `{name}` with `{_CUDA}.{instead}`, a stand-in that does nothing"
    return ctx.rewrite.fix(title, *imports, made, applicability=Applicability.UNSAFE, serves_cuda=True)


def _fix(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    """The fix that removes the code that orders work, together with the streams that it names."""
    statement = ctx.statement(call)
    names: set[str] = set()
    edits: dict[Change, None] = {}
    if name in _MADE | _ASKED and isinstance(statement, ast.Assign) and statement.value is call:
        target = statement.targets[0]
        if len(statement.targets) != 1:
            return None
        if not isinstance(target, ast.Name):
            edit = _without_attribute(statement, target, ctx)
            return ctx.rewrite.fix(_REMOVE, edit, applicability=Applicability.UNSAFE) if edit else None
        names.add(target.id)
    else:
        found = _without_order(call, ctx)
        if found is None:
            return None
        edits |= dict.fromkeys(found)
        names |= {
            node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and _is_stream(node, ctx)
        }
    for stream_name in sorted(names):
        uses = _without_stream(stream_name, ctx)
        if uses is None:
            return None
        edits |= dict.fromkeys(uses)
    return ctx.rewrite.fix(_REMOVE, *edits, applicability=Applicability.UNSAFE)


def _without_order(call: ast.expr, ctx: Context) -> tuple[Change, ...] | None:
    """The edits that remove the context or statement for which a stream is named; else None."""
    statement = ctx.statement(call)
    if isinstance(statement, ast.With):
        items = (item for item in statement.items if any(node is call for node in ast.walk(item)))
        item = next(items, None)
        opened = item.context_expr if item is not None else None
        if (
            item is None
            or not isinstance(opened, ast.Call)
            or ctx.names.qualified(opened.func) not in _ENTERED
        ):
            return None
        return ctx.rewrite.unwrap(statement, item)
    done = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(done, ast.Call) and isinstance(done.func, ast.Attribute):
        waits = done.func.attr == "synchronize" and _is_stream(done.func.value, ctx)
        if done.func.attr in _ORDERS or waits:
            return (ctx.rewrite.delete(statement),)
        if ctx.names.qualified(done.func) == "torch.cuda.set_stream":
            return (ctx.rewrite.delete(statement),)
    return None


def _without_attribute(statement: ast.Assign, target: ast.expr, ctx: Context) -> Change | None:
    """The edit that removes a stream in an attribute that nothing reads; else None."""
    if not isinstance(target, ast.Attribute) or not is_name(target.value, "self"):
        return None
    read = (
        isinstance(node, ast.Attribute) and node.attr == target.attr and isinstance(node.ctx, ast.Load)
        for node in ast.walk(ctx.tree)
    )
    return None if any(read) else ctx.rewrite.delete(statement)


def _goes_later(call: ast.Call, ctx: Context) -> bool:
    """Whether the stream is stored in an attribute whose uses are all removed first."""
    match ctx.statement(call):
        case ast.Assign(targets=[ast.Attribute(value=kept, attr=attr)], value=value):
            if value is not call or not is_name(kept, "self"):
                return False
        case _:
            return False
    reads = [
        node
        for node in ast.walk(ctx.tree)
        if isinstance(node, ast.Attribute) and node.attr == attr and isinstance(node.ctx, ast.Load)
    ]
    return all(_without_order(_entered_with(node, ctx), ctx) is not None for node in reads)


def _entered_with(node: ast.expr, ctx: Context) -> ast.expr:
    """The context that receives the stream, or the stream itself."""
    outer = ctx.parent(node)
    entered = isinstance(outer, ast.Call) and ctx.names.qualified(outer.func) in _ENTERED
    return outer if entered and isinstance(outer, ast.Call) else node


def _without_stream(name: str, ctx: Context) -> list[Change] | None:
    """The edits that remove a stream with all of its uses; None if a use does something else."""
    found = ctx.names.lookup(name)
    if found is None or len(found[1]) != 1 or found[0].function is not ctx.scope.function:
        return None
    owner = ctx.scope.function.node if ctx.scope.function is not None else ctx.tree
    edits: dict[Change, None] = {}
    for node in ast.walk(owner):
        if not isinstance(node, ast.Name) or not is_name(node, name):
            continue
        if isinstance(node.ctx, ast.Store):
            statement = ctx.statement(node)
            if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
                return None
            edits[ctx.rewrite.delete(statement)] = None
            continue
        uses = _without_order(node, ctx)
        if uses is None:
            return None
        edits |= dict.fromkeys(uses)
    return list(edits)
