"""Tensor stored on the CPU and used in traced code.

## What it does

Reports tensors for which all of these statements are true:

- The program creates the tensor without `device=`, outside of traced code.
- The program stores the tensor in an attribute or a global variable.
- Traced code combines the tensor with device tensors.

Traced code is code that JAX traces to compile it, such as a model's `forward`.
Parameters and buffers are not reported, because `module.to("jax")` moves them to the device.

## Why it matters on TPU

`module.to("jax")` does not move a tensor in a plain attribute (an attribute that is neither a parameter nor a
buffer) or in a global variable.
Such tensors therefore stay on the CPU.
torchax cannot combine CPU tensors with its own tensors, whether or not the code is jitted.
torchax raises `AssertionError: Expect a Tensor or a View but got <class 'torch.Tensor'>; usually this means
there is a mixed math between XLATensor and torch.Tensor`.

## Fix safety

The fix is unsafe, because it makes the tensor a buffer of the module, and methods such as `module.half()`
also change buffers. In a module, the fix replaces `self.x = torch.arange(8)` with `self.register_buffer("x",
torch.arange(8), persistent=False)`.

- The buffer moves to the device with the module, and is not part of the checkpoint.
- `module.half()` and similar methods also cast the buffer.

## Without a fix

If the tensor belongs to a module, register it as a buffer.
Or create the tensor in the traced code that uses it, on the device of another tensor, as in `torch.arange(8,
device=x.device)`.
In jitted code, this costs little: XLA computes a constant tensor only once, when it compiles the code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tensors import FACTORIES
from tpulint.rules_api import Applicability, Context, Finding, Fix, Instance, Rule, Tensor

rule = Rule(
    "TPU502",
    "tensor stored on the CPU and used in traced code",
    module=__name__,
    former=("host-tensor-kept-for-traced-code",),
    fix=Applicability.UNSAFE,
)


@rule.on(ast.Call, named=FACTORIES)
def factory(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = (ctx.names.qualified(call.func) or "").removeprefix("torch.")
    if name not in FACTORIES or ctx.trace.path is not None:
        return
    if ctx.devices.mixes_host_tensor(call):
        how = "without `device=` creates a CPU tensor, which traced code cannot combine with device tensors"
        message = f"`torch.{name}` {how}"
        yield ctx.finding(call, message, _as_buffer(call, ctx))


def _as_buffer(call: ast.Call, ctx: Context) -> Fix | None:
    statement = ctx.statement(call)
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name) as target]):
            owner = ctx.types.of(target.value)
        case _:
            return None
    if (
        not isinstance(owner, Instance)
        or not ctx.types.is_module(owner)
        or ctx.types.assigned_often(owner, name)
    ):
        return None
    if not isinstance(ctx.types.of(statement.value), Tensor):
        return None  # a list of tensors is no buffer
    code = f'self.register_buffer("{name}", {ctx.text(statement.value)}, persistent=False)'
    title = f"register `self.{name}` as a buffer, which moves to the device with the module"
    return ctx.rewrite.fix(title, ctx.rewrite.replace(statement, code), applicability=Applicability.UNSAFE)
