"""Host tensor kept for traced code.

## What it does

Flags tensors that are made outside of traced code without `device=`, kept in an attribute or a global
variable, and met by a tensor of the device in traced code.
Parameters and buffers are left alone: `module.to("jax")` moves them.

## Why it matters on TPU

`module.to("jax")` does not know of a tensor in a plain attribute, and nothing moves a global one.
Both stay on the host, and torchax does not mix host tensors with its own:
`AssertionError: Expect a Tensor or a View but got <class 'torch.Tensor'>; usually this means there is a mixed
math between XLATensor and torch.Tensor`, with or without jit.

## Fix safety

Unsafe: `self.x = torch.arange(8)` in a module becomes
`self.register_buffer("x", torch.arange(8), persistent=False)`.
It moves with the module and stays out of the checkpoint, but `module.half()` and its like cast it, too.

## Without a fix

Register it as a buffer, or make it where it is needed, with `device=` of a tensor at hand; the compiler
computes a constant once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix, Span
from tpulint.knowledge.tensors import FACTORIES
from tpulint.model.values.kinds import Instance, Tensor
from tpulint.rule import Context, Rule

rule = Rule(
    "TPU502",
    "host tensor kept for traced code",
    module=__name__,
    former=("host-tensor-kept-for-traced-code",),
    fix=Applicability.UNSAFE,
)


@rule.on(ast.Call, named=FACTORIES)
def factory(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = (ctx.qualified_name(call.func) or "").removeprefix("torch.")
    if name not in FACTORIES or ctx.trace_path is not None:
        return
    if ctx.span(call).start in ctx.module.mixed:
        message = (
            f"`torch.{name}` without `device=` makes a host tensor, which meets the device's when traced"
        )
        yield ctx.finding(call, message, _as_buffer(call, ctx))


def _as_buffer(call: ast.Call, ctx: Context) -> Fix | None:
    statement = ctx.statement(call)
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name) as target]):
            owner = ctx.kind(target.value)
        case _:
            return None
    if not isinstance(owner, Instance) or not ctx.is_module(owner) or ctx.assigned_often(owner, name):
        return None
    if not isinstance(ctx.kind(statement.value), Tensor):
        return None  # a list of tensors is no buffer
    start, value = ctx.span(statement), ctx.span(statement.value)
    opening = ctx.edit(Span(start.start, value.start), f'self.register_buffer("{name}", ')
    closing = ctx.insert(value.end, ", persistent=False)")
    return ctx.fix("make it a buffer", opening, closing, applicability=Applicability.UNSAFE)
