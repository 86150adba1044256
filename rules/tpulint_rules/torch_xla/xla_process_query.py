"""Question about the processes and devices of torch_xla.

## What it does

Reports functions of torch_xla that return the number of the process or the device, the number of processes
or devices, or the type of the devices, such as `xr.global_ordinal()`, `xr.world_size()`,
`xm.is_master_ordinal()` and `xm.xla_device_hw(device)`.
It also reports `xm.master_print`, which prints in one of the processes, and `xr.use_spmd()`.

## Why it matters on TPU

Without torch_xla, these functions do not exist.
`xm.get_ordinal` and `xm.xrt_world_size` do not exist in torch_xla 2.9.0 either.
On torchax, one process uses all devices of the host.

## Fix safety

The fix is unsafe, because it assumes that one process uses all devices.

| torch_xla | one process | with a rank for each device |
| --- | --- | --- |
| `xr.global_ordinal()`, `xm.get_ordinal()` | `jax.process_index()` | `torch.distributed.get_rank()` |
| `xr.world_size()`, `xm.xrt_world_size()` | `jax.process_count()` | `torch.distributed.get_world_size()` |
| `xr.local_ordinal()`, `xm.get_local_ordinal()` | `0` | `torch.distributed.get_rank()` |
| `xm.is_master_ordinal()` | `jax.process_index() == 0` | `torch.distributed.get_rank() == 0` |
| `xr.global_device_count()` | `jax.device_count()` | `jax.device_count()` |
| `xr.device_type()` | `jax.default_backend().upper()` | `jax.default_backend().upper()` |
| `xm.master_print(...)` | `print(...)` | `print(...)` |

The third column is for programs that give each process its share of the samples, with a
`DistributedSampler`, for which the fix of TPU001 (`missing-torchax-environment`) makes each device a rank;
see [distributed programs](../distributed.md).

The fix removes `xr.use_spmd()`: torchax needs no mode for arrays that are sharded.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.torch_xla import NEEDLESS, QUERIES, short_name
from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Rule

rule = Rule(
    "XLA106",
    "question about the processes and devices of `torch_xla`",
    module=__name__,
    fix=Applicability.UNSAFE,
)

_MODES = NEEDLESS - {"torch_xla.experimental.eager_mode"}  # which marks steps
_PRINT = "xm.master_print"


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in (*QUERIES, *_MODES)))
def query(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = short_name(ctx.names.qualified(call.func))
    if name is None or not ctx.program.runs_on_torch_xla:
        return
    if name in _MODES:
        yield ctx.finding(
            call,
            f"`{name}` sets a mode of `torch_xla`, which torchax does not need",
            _removed(call, name, ctx),
        )
    elif name in QUERIES:
        message = f"`{name}` is about processes of `torch_xla`; on torchax, one process uses all devices"
        yield ctx.finding(call, message, _answered(call, name, ctx))


@rule.on(ast.Call, named={_PRINT.rpartition(".")[2]})
def printed(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if short_name(ctx.names.qualified(call.func)) != _PRINT or not ctx.program.runs_on_torch_xla:
        return
    edits: list[Change] = [ctx.rewrite.replace(call.func, "print")]
    for word in call.keywords:
        if word.arg == "fd":
            edits.append(ctx.rewrite.rename(word, "file"))
        elif word.arg in ("local", "flush"):
            edits.append(ctx.rewrite.remove_argument(word))
    fix = ctx.rewrite.fix(f"replace `{_PRINT}` with `print`", *edits, applicability=Applicability.UNSAFE)
    yield ctx.finding(
        call, f"`{_PRINT}` prints in one of the processes of `torch_xla`; torchax uses one", fix
    )


def _answered(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    answer = QUERIES[name]
    new = answer.ranked if ctx.program.has_rank_per_device else answer.alone
    root = new.partition(".")[0]
    imports = ctx.rewrite.imports(f"import {root}") if root in ("jax", "torch") else ()
    if imports is None:
        return None
    edit = ctx.rewrite.replace(call, ctx.rewrite.grouped(call, new) if " " in new else new)
    title = f"replace `{name}` with `{new}`"
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)


def _removed(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    statement = ctx.statement(call)
    if not isinstance(statement, ast.Expr) or statement.value is not call:
        return None
    edit = ctx.rewrite.delete(statement)
    return ctx.rewrite.fix(f"remove the call of `{name}`", edit, applicability=Applicability.UNSAFE)
