"""`torch.cuda.synchronize()` call.

## What it does

Reports:

- `torch.cuda.synchronize()`, also inside a check such as `if torch.cuda.is_available():`;
- `torch.cuda.current_stream().synchronize()`;
- `torch.accelerator.synchronize()`;
- these functions used as values, as in `wait = torch.cuda.synchronize`.

The rule does not report a call that a check for CUDA guards together with CUDA events, because the events
measure the time there.

## Why it matters on TPU

- On a host without CUDA, `torch.cuda.synchronize()` raises `AssertionError: Torch not compiled with CUDA
  enabled`.
- Inside a check for CUDA, `torch.cuda.synchronize()` never runs on a TPU host, and the program raises no
  error.
  The program then never waits for the device, so a measured time includes only the time to start the work,
  not the time of the work itself.

In JAX, `jax.block_until_ready` waits for arrays.

## Fix safety

The fix replaces the call with `jax.block_until_ready(jax.live_arrays())`, which waits for all arrays that
exist.
The fix is unsafe, because a measured time may change:

- If the program no longer references the result of a computation, `jax.block_until_ready(jax.live_arrays())`
  does not wait for this computation. The measured time may then be too short.
- If 3000 arrays exist and all of them are ready, `jax.block_until_ready(jax.live_arrays())` takes half a
  millisecond, which becomes part of the measured time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule
from tpulint.rules_api import matchers as m

if TYPE_CHECKING:
    import libcst as cst

rule = Rule(
    "TPU201",
    "`torch.cuda.synchronize()` call",
    module=__name__,
    fix=Applicability.UNSAFE,
    targets=EVERY_TARGET,
)

_EVERYTHING = ("torch.cuda.synchronize", "torch.accelerator.synchronize")
_STREAMS = ("torch.cuda.current_stream", "torch.cuda.default_stream")


@rule.on(ast.Call, named={"synchronize"})
def synchronize(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name in _EVERYTHING and ctx.program.target.synchronize != f"{name}()":
        yield from _waiting(call, ctx)


@rule.on(m.Call(func=m.Attribute(value=m.Call(), attr=m.Name("synchronize"))))
def of_stream(found: cst.Call, ctx: Context) -> Iterator[Finding]:
    call = ctx.node(found)
    if ctx.names.qualified(call.func.value.func) in _STREAMS:
        yield from _waiting(call, ctx)


def _waiting(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if _waits_for_events(call, ctx):
        return
    message = "`torch.cuda.synchronize()` never waits for the TPU: it raises, or a check for CUDA skips it"
    if ctx.names.qualified(call.func) == "torch.accelerator.synchronize":
        message = "`torch.accelerator.synchronize()` raises under torchax instead of waiting for the TPU"
    yield ctx.finding(call, message, _block_until_ready(call, ctx))


@rule.on(ast.Attribute, named={"synchronize"})
def handed_on(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    outer = ctx.parent(node)
    name = ctx.names.qualified(node)
    if name not in _EVERYTHING or (isinstance(outer, ast.Call) and outer.func is node):
        return
    if ctx.program.target.synchronize == f"{name}()":
        return
    code = ctx.program.target.synchronize
    imports = ctx.rewrite.imports(*ctx.program.target.needed_for(code))
    fix = None
    if imports is not None:
        wait = f"lambda *_: {code}"
        # A lambda reaches as far as it can: over an `else`, too.
        is_apart = isinstance(outer, ast.Call | ast.keyword | ast.Assign)
        edit = ctx.rewrite.replace(node, wait if is_apart else f"({wait})")
        title = f"replace the synchronization with `{code}`"
        fix = ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
    yield ctx.finding(node, f"`{ctx.text(node)}` raises on a TPU host when it is called", fix)


def _waits_for_events(call: ast.Call, ctx: Context) -> bool:
    """Whether a check for CUDA guards the call together with CUDA events, which then measure the time."""
    guard = next((outer for outer in ctx.ancestors(call) if isinstance(outer, ast.If)), None)
    if guard is None or not ctx.devices.only_with_cuda(call):
        return False
    inside = [part for statement in guard.body for part in ast.walk(statement)]
    return any(
        isinstance(part, ast.Attribute) and part.attr in ("Event", "elapsed_time", "record")
        for part in inside
    )


def _block_until_ready(call: ast.Call, ctx: Context) -> Fix | None:
    statement = ctx.statement(call)
    is_function = any(isinstance(one, ast.Lambda) for one in ctx.ancestors(call))
    if not isinstance(statement, ast.Expr) and not is_function:
        return None
    outer = ctx.parent(statement)
    whole: ast.expr | ast.stmt = call
    if isinstance(outer, ast.If) and ctx.devices.is_guarded_synchronize(outer):
        whole = outer
    code = ctx.program.target.synchronize
    imports = ctx.rewrite.imports(*ctx.program.target.needed_for(code))
    if imports is None:
        return None
    edit = ctx.rewrite.replace(whole, code)
    title = f"replace the synchronization with `{code}`"
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
