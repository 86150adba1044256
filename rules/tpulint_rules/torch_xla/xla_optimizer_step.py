"""Optimizer step of torch_xla.

## What it does

Reports `xm.optimizer_step(optimizer)`, `xm.reduce_gradients(optimizer)`, and the optimizers of
`torch_xla.amp.syncfree`.

## Why it matters on TPU

`xm.optimizer_step` averages the gradients over the processes of torch_xla, and calls `optimizer.step()`.
In a program on torchax, one process uses all devices, and its gradients are those of the whole batch; see
[distributed programs](../distributed.md).
Without torch_xla, the function does not exist.

## Fix safety

The fix is unsafe, because it is a part of the change from torch_xla to torchax.

- `xm.optimizer_step(optimizer)` becomes `optimizer.step()`. The items of `optimizer_args` become arguments
  of `step`.
- The fix removes `xm.reduce_gradients(optimizer)`.
- Optimizers of `torch_xla.amp.syncfree` become those of `torch.optim`, which compute the same without a
  gradient scaler.

## Without a fix

With `groups`, gradients are averaged over some of the processes only.
Write such a step with JAX.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.torch_xla import SYNCFREE, short_name
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule

rule = Rule("XLA103", "optimizer step of `torch_xla`", module=__name__, fix=Applicability.UNSAFE)

_PARAMETERS = ("optimizer", "barrier", "optimizer_args", "groups", "pin_layout")


@rule.on(ast.Call, named={"optimizer_step", "reduce_gradients"})
def optimizer_step(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = short_name(ctx.names.qualified(call.func))
    if name not in ("xm.optimizer_step", "xm.reduce_gradients") or not ctx.program.runs_on_torch_xla:
        return
    message = (
        f"`{name}` averages gradients over processes of `torch_xla`; on torchax, one process uses all chips"
    )
    fix = _step(call, ctx) if name == "xm.optimizer_step" else _removed(call, ctx)
    yield ctx.finding(call, message, fix)


@rule.on(ast.Attribute, named=frozenset(name.rpartition(".")[2] for name in SYNCFREE))
def syncfree(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    yield from _syncfree(node, ctx)


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in SYNCFREE))
def imported_syncfree(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if isinstance(call.func, ast.Name):
        yield from _syncfree(call.func, ctx)


def _syncfree(node: ast.expr, ctx: Context) -> Iterator[Finding]:
    name = short_name(ctx.names.qualified(node))
    if name not in SYNCFREE:
        return
    imports, fix = ctx.rewrite.imports("import torch"), None
    if imports is not None:
        new = f"torch.optim.{name.rpartition('.')[2]}"
        edit = ctx.rewrite.replace(node, new)
        title = f"replace `{name}` with `{new}`"
        fix = ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
    yield ctx.finding(node, f"`{name}` is an optimizer of `torch_xla`, which torchax cannot use", fix)


def _step(call: ast.Call, ctx: Context) -> Fix | None:
    given = dict(zip(_PARAMETERS, call.args, strict=False))
    given |= {word.arg: word.value for word in call.keywords if word.arg is not None}
    groups = given.get("groups")
    is_whole = groups is None or (isinstance(groups, ast.Constant) and groups.value is None)
    if "optimizer" not in given or not is_whole or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    match given.get("optimizer_args"):
        case None:
            arguments = ""
        case ast.Dict(keys=keys, values=values) if all(_is_word(key) for key in keys):
            pairs = zip(keys, values, strict=True)
            arguments = ", ".join(f"{ast.literal_eval(key)}={ctx.text(value)}" for key, value in pairs if key)
        case mapping:
            arguments = f"**{ctx.text(mapping)}"
    step = f"{ctx.rewrite.operand(given['optimizer'])}.step({arguments})"
    edit = ctx.rewrite.replace(call, step)
    return ctx.rewrite.fix(
        f"replace `xm.optimizer_step` with `{step}`", edit, applicability=Applicability.UNSAFE
    )


def _is_word(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.isidentifier()


def _removed(call: ast.Call, ctx: Context) -> Fix | None:
    statement = ctx.statement(call)
    if not isinstance(statement, ast.Expr) or statement.value is not call:
        return None
    title = "remove the call of `xm.reduce_gradients`"
    return ctx.rewrite.fix(title, ctx.rewrite.delete(statement), applicability=Applicability.UNSAFE)
