"""Function that torch_xla launches on each device.

## What it does

Reports `xmp.spawn`, `torch_xla.launch` and `xmp.MpModelWrapper`.

## Why it matters on TPU

torch_xla starts a process or a thread for each device.
On torchax, one process uses all devices of the host, and a second process cannot use them at all.

## Fix safety

The fix is unsafe, because it assumes that one process uses all devices.
The fix calls the function directly, as rank 0:

- If the program gives each process its share of the samples, with a `DistributedSampler`, the fix of TPU001
  (`missing-torchax-environment`) makes each device a rank, and this fix also starts the process group of
  these ranks, instead of the function. The program then computes what it computed with one process for each
  device; see [distributed programs](../distributed.md).
- Other programs run on one device.

`xmp.MpModelWrapper(model)` becomes `model`.

## Without a fix

If the result of the call is used, or the arguments are unpacked, call the function by hand.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.torch_xla import LAUNCH, short_name
from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Rule

rule = Rule(
    "XLA105", "function that `torch_xla` launches on each device", module=__name__, fix=Applicability.UNSAFE
)

_WRAPPER = "xmp.MpModelWrapper"


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in LAUNCH))
def launched(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = short_name(ctx.names.qualified(call.func))
    if name not in LAUNCH:
        return
    message = f"`{name}` starts one process for each device; on torchax, one process uses all devices"
    yield ctx.finding(call, message, _fix(call, LAUNCH[name], ctx))


@rule.on(ast.Call, named={_WRAPPER.rpartition(".")[2]})
def wrapped(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if short_name(ctx.names.qualified(call.func)) != _WRAPPER or len(call.args) != 1:
        return
    edit = ctx.rewrite.reduce(call, call.args[0])
    fix = ctx.rewrite.fix(f"remove `{_WRAPPER}`", edit, applicability=Applicability.UNSAFE)
    yield ctx.finding(
        call, f"`{_WRAPPER}` shares a model between processes of `torch_xla`, and torchax uses one", fix
    )


def _fix(call: ast.Call, parameters: tuple[str, ...], ctx: Context) -> Fix | None:
    given = dict(zip(parameters, call.args, strict=False))
    given |= {word.arg: word.value for word in call.keywords if word.arg is not None}
    statement = ctx.statement(call)
    if "fn" not in given or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    if not isinstance(statement, ast.Expr) or statement.value is not call:
        return None
    text = ctx.rewrite.call_as_first_process(given)
    imports: tuple[Change, ...] | None = ()
    own: list[Change] = []
    if ctx.program.has_rank_per_device:
        text = ctx.rewrite.lines(statement, "torch.distributed.init_process_group()", text)
        imports, own = ctx.rewrite.imports("import torch"), list(_own_starts(ctx))
    if imports is None:
        return None
    title = f"call `{ctx.text(given['fn'])}` directly, as rank 0"
    edit = ctx.rewrite.replace(statement, text)
    return ctx.rewrite.fix(title, edit, *own, *imports, applicability=Applicability.UNSAFE)


def _own_starts(ctx: Context) -> Iterator[Change]:
    """Edits that remove the calls with which the processes start the group, perhaps under a condition."""
    for call, at in ctx.calls("init_process_group"):
        statement = ctx.statement(call)
        if at.program.starts_group(call) and isinstance(statement, ast.Expr) and statement.value is call:
            yield ctx.rewrite.delete(statement)
