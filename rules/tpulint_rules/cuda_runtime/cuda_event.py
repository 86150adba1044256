"""Time measured with CUDA events.

## What it does

Reports `torch.cuda.Event(...)` and `torch.Event(...)`.
Code that runs only where CUDA is available is not reported.

## Why it matters on TPU

- On a host without CUDA, the constructor of the event raises `RuntimeError: Tried to instantiate dummy base
  class Event`.
- JAX has no events.
  Instead of events, use the clock of the host: it measures the same time if the program waits for the
  computed arrays before it reads the clock.

## Fix safety

The fix is unsafe, because the fixed program measures time with the clock of the host:

- The fix replaces `record()` with a call of `time.perf_counter()`.
  If the function computes something between two of these calls, the fixed code waits for all arrays before
  the second call.
- The fix replaces `elapsed_time` with the difference of two clock readings, in milliseconds.
- If the program no longer references the result of a computation, the fixed code does not wait for this
  computation. The measured time may then be too short.
- The measured time of the first call of a jitted function includes tracing and compilation.
  Call a jitted function once before you measure its time.

If the program keeps events in lists or attributes, or passes them to functions, the fix replaces the events
with objects of the class `torchax_compat.cuda.Event`.
The class `torchax_compat.cuda.Event` has the same methods as `torch.cuda.Event`.
`torchax_compat` is the runtime torchax-compat.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.runtime import PACKAGE
from tpulint.knowledge.waiting import WAIT_FOR_ALL, WAITS
from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Rule
from tpulint.rules_api.syntax import is_name

rule = Rule("TPU202", "time measured with CUDA events", module=__name__, fix=Applicability.UNSAFE)

_CUDA = f"{PACKAGE}.cuda"
_EVENTS = frozenset({"torch.Event", "torch.cuda.Event", "torch.cuda.streams.Event"})


@rule.on(ast.Call, named={"Event"})
def event(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name in _EVENTS and not ctx.devices.only_with_cuda(call) and not ctx.devices.is_caught(call):
        fix = _on_the_clock(ctx) or _stand_in(call, ctx)
        yield ctx.finding(call, f"`{name}` raises on a TPU host, and JAX has no events", fix)


def _stand_in(call: ast.Call, ctx: Context) -> Fix | None:
    """The fix that replaces the event with an object that may be stored and passed on."""
    imports = ctx.rewrite.runtime_import()
    if imports is None:
        return None
    made = ctx.rewrite.replace(call.func, f"{_CUDA}.Event")
    title = f"replace `{ctx.text(call.func)}` with `{_CUDA}.Event`, which reads the host clock"
    return ctx.rewrite.fix(title, *imports, made, applicability=Applicability.UNSAFE, serves_cuda=True)


def _on_the_clock(ctx: Context) -> Fix | None:
    """The fix that replaces all events of the function with readings of the clock; else None."""
    made, names = _made(ctx)
    imports = ctx.rewrite.imports("import time", "import jax")
    owner = ctx.scope.function.node if ctx.scope.function is not None else ctx.tree
    if not names or imports is None:
        return None
    records: dict[int, ast.stmt] = {}
    edits: dict[Change, None] = {ctx.rewrite.delete(statement): None for statement in made}
    for node in ast.walk(owner):
        if not isinstance(node, ast.Name) or node.id not in names or isinstance(node.ctx, ast.Store):
            continue
        use = ctx.parent(node)
        call = ctx.parent(use) if use is not None else None
        if isinstance(use, ast.Call) and node in use.args:
            continue  # the end of an `elapsed_time`, which is looked at from its start
        if not isinstance(use, ast.Attribute) or not isinstance(call, ast.Call) or call.func is not use:
            return None
        statement = ctx.statement(call)
        alone = isinstance(statement, ast.Expr) and statement.value is call
        if use.attr == "record" and alone:
            records[id(statement)] = statement
        elif use.attr == "synchronize" and alone:
            edits[ctx.rewrite.delete(statement)] = None
        elif use.attr == "elapsed_time" and len(call.args) == 1 and ctx.is_located(call):
            if not isinstance(call.args[0], ast.Name) or call.args[0].id not in names:
                return None
            edits[_difference(call, node.id, call.args[0].id, ctx)] = None
        else:
            return None
    if _passed_elsewhere(owner, names, ctx):
        return None
    waited = False
    for statement in records.values():
        pending = ctx.devices.pending(
            statement, lambda before: id(before) in records or _synchronizes(before, ctx)
        )
        waited = waited or bool(pending)
        edits |= dict.fromkeys(_reading(statement, pending, ctx))
    if not waited:
        return None
    title = "replace the CUDA events with `time.perf_counter()`, called after `jax.block_until_ready(...)`"
    return ctx.rewrite.fix(title, *edits, *imports, applicability=Applicability.UNSAFE)


def _made(ctx: Context) -> tuple[list[ast.stmt], set[str]]:
    """The statements of the function that create events, and the names of these."""
    made: list[ast.stmt] = []
    names: set[str] = set()
    for call, at in ctx.calls("Event"):
        if at.scope.function is not ctx.scope.function:
            continue
        statement = ctx.statement(call)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return [], set()
        target, value = statement.targets[0], statement.value
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        values = value.elts if isinstance(value, ast.Tuple) else [value]
        bound = [one.id for one in targets if isinstance(one, ast.Name)]
        events = [
            one for one in values if isinstance(one, ast.Call) and ctx.names.qualified(one.func) in _EVENTS
        ]
        if not len(bound) == len(events) == len(targets) == len(values):
            return [], set()
        owner = at.scope.function or ctx.names.module_scope
        if any(len(owner.bindings.get(name, ())) != 1 for name in bound):
            return [], set()
        if statement not in made:
            made.append(statement)
        names |= set(bound)
    return made, names


def _passed_elsewhere(owner: ast.AST, names: set[str], ctx: Context) -> bool:
    """Whether an event is an argument of anything but `elapsed_time`."""
    return any(
        isinstance(call, ast.Call)
        and any(is_name(argument, name) for argument in call.args for name in names)
        and not (isinstance(call.func, ast.Attribute) and call.func.attr == "elapsed_time")
        for call in ast.walk(owner)
    ) or any(child.evidence.keys() & names for child in ctx.scope.children)


def _synchronizes(statement: ast.stmt, ctx: Context) -> bool:
    """Whether the statement waits for the device."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and ctx.names.qualified(statement.value.func) in WAITS
    )


def _reading(statement: ast.stmt, pending: list[str], ctx: Context) -> Iterator[Change]:
    """The edits that read the clock in place of `record()`, and remove the synchronization after it."""
    assert isinstance(statement, ast.Expr)
    record = statement.value
    assert isinstance(record, ast.Call)
    assert isinstance(record.func, ast.Attribute)
    reading = f"{ctx.text(record.func.value)} = time.perf_counter()"
    if pending:
        source = ctx.source
        before = source.ahead_of(statement)
        joint = "; " if before.strip() else f"{source.newline}{before}"
        reading = f"{WAIT_FOR_ALL}{joint}{reading}"
    yield ctx.rewrite.replace(statement, reading)
    block = ctx.block(statement)
    following = block[block.index(statement) + 1 : block.index(statement) + 2]
    if pending and following and _synchronizes(following[0], ctx):
        yield ctx.rewrite.delete(following[0])


def _difference(call: ast.Call, start: str, end: str, ctx: Context) -> Change:
    outer = ctx.parent(call)
    right = isinstance(outer, ast.BinOp) and (outer.right is call or isinstance(outer.op, ast.Pow))
    tight = right or isinstance(outer, ast.UnaryOp | ast.Attribute | ast.Subscript)
    text = f"({end} - {start}) * 1e3"
    return ctx.rewrite.replace(call, f"({text})" if tight else text)
