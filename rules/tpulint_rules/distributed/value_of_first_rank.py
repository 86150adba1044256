"""Value or share of the first rank only.

## What it does

In programs in which each device is a rank (see [distributed programs](../distributed.md)), reports

- `float(x)` of a tensor on the device, if the number is used in computations, and the file reduces or gathers
  values over the ranks, as with `all_reduce`;
- slices that give each process its share of something, such as `files[rank::world_size]`.

The rule does not report numbers that are only printed, logged or compared, and shares in samplers, which the
runtime creates for each rank.

## Why it matters on TPU

One process drives the devices of all ranks of a host, and has one value of each Python variable.

- `x.item()` and `x.tolist()` keep the values of all ranks, also in sums and other arithmetic.
  `float(x)` cannot: Python converts its result to a plain float, that of rank 0.
  A sum of such numbers over the ranks is the number of ranks times that of rank 0.
  No error occurs.
- `files[rank::world_size]` is the share of rank 0.
  Nothing processes the shares of the other ranks.

## Fix safety

The fix replaces `float(x)` with `x.item()`.
It is unsafe, because `x.item()` is an integer or a truth value if `x` is, which prints differently.

## Without a fix

Use a `DataLoader` with a `DistributedSampler`, which yields the samples of all ranks, in place of a slice:

```python
sampler = DistributedSampler(files, shuffle=False)
for batch in DataLoader(files, batch_size=1, sampler=sampler):
    ...
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule, Tensor

rule = Rule("TPU806", "value or share of the first rank only", module=__name__, fix=Applicability.UNSAFE)

#: Functions of `torch.distributed` that combine values of all ranks.
_COMBINING = frozenset(
    {"all_reduce", "reduce", "all_gather", "all_gather_into_tensor", "all_gather_object", "gather"}
    | {"gather_object"}
)
#: Functions and methods that show numbers.
_SHOWING = frozenset(
    {"print", "format", "str", "repr", "round", "info", "debug", "warning", "error", "log", "write"}
    | {"set_postfix", "set_description", "add_scalar", "isnan", "isinf", "isfinite"}
)
_SIZES = frozenset({"world_size", "num_replicas", "n_ranks", "num_ranks", "num_processes"})


@rule.on(ast.Call, named={"float"})
def number(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "builtins.float" or len(call.args) != 1 or call.keywords:
        return
    if not ctx.program.has_rank_per_device or not any(map(ctx.names.has_call, _COMBINING)):
        return
    value = ctx.types.of(call.args[0])
    if not isinstance(value, Tensor) or value.is_host or not _is_computed_with(call, ctx):
        return
    message = (
        "`float()` keeps the value of rank 0 only, so that sums over the ranks are wrong; `.item()` keeps "
        "those of all ranks"
    )
    yield ctx.finding(call, message, _item(call, ctx))


def _item(call: ast.Call, ctx: Context) -> Fix:
    tensor = call.args[0]
    is_simple = isinstance(tensor, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    text = ctx.text(tensor) if is_simple else f"({ctx.text(tensor)})"
    edit = ctx.rewrite.replace(call, f"{text}.item()")
    return ctx.rewrite.fix("replace `float()` with `.item()`", edit, applicability=Applicability.UNSAFE)


def _is_computed_with(value: ast.expr, ctx: Context) -> bool:
    """Whether a number is used in computations, or passed on, and not only shown or compared."""
    for outer in ctx.ancestors(value):
        if isinstance(outer, ast.Compare | ast.JoinedStr):
            return False
        if isinstance(outer, ast.Call) and _last_name(outer.func) in _SHOWING:
            return False
        if isinstance(outer, ast.Assign) and outer.value is value:
            return any(
                isinstance(target, ast.Attribute) or _is_read_in_computation(target, outer, ctx)
                for target in outer.targets
            )
        if isinstance(outer, ast.stmt):
            return not isinstance(outer, ast.Expr) or isinstance(outer.value, ast.Call)
    return False


def _is_read_in_computation(target: ast.expr, statement: ast.stmt, ctx: Context) -> bool:
    if not isinstance(target, ast.Name):
        return True
    return any(_is_computed_with(read, ctx) for read in ctx.names.loads_after(target.id, statement))


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


@rule.on(ast.Subscript)
def share(node: ast.Subscript, ctx: Context) -> Iterator[Finding]:
    part = node.slice
    if not isinstance(part, ast.Slice) or part.lower is None or part.step is None:
        return
    if not isinstance(node.ctx, ast.Load) or not _is_size(part.step, ctx) or not _is_rank(part.lower, ctx):
        return
    if ctx.program.has_rank_per_device:
        message = (
            f"`{ctx.text(node)}` is the share of rank 0, and nothing processes those of the other ranks; "
            "use a `DataLoader` with a `DistributedSampler`"
        )
        yield ctx.finding(node, message)


def _is_size(node: ast.expr, ctx: Context) -> bool:
    """Whether the expression is the number of ranks."""
    return _is_asked(node, "get_world_size", ctx) or _last_name(node) in _SIZES


def _is_rank(node: ast.expr, ctx: Context) -> bool:
    """Whether the expression is the rank of the process, and not that of a sampler."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return False
    return _is_asked(node, "get_rank", ctx) or "rank" in _last_name(node).lower()


def _is_asked(node: ast.expr, function: str, ctx: Context) -> bool:
    values = [node, *(ctx.names.assigned_values(node) if isinstance(node, ast.Name | ast.Attribute) else ())]
    return any(isinstance(one, ast.Call) and _last_name(one.func) == function for one in values)
