"""Random generator of a device.

## What it does

Flags `torch.Generator(device=...)` for a CUDA device, for `"jax"` and for the program's device by name.

## Why it matters on TPU

`torch.Generator(device="cuda")` raises `RuntimeError: Cannot get CUDA generator without ATen_cuda library`,
and with `"jax"` `RuntimeError: Please register PrivateUse1HooksInterface by RegisterPrivateUse1HooksInterface
first`.
torchax has no generators; one of the host serves, for tensors that are drawn there and moved.

## Fix safety

Unsafe: the generator becomes one of the host, whose numbers are not those of CUDA.
TPU614 then moves what is drawn with it.
With `--keep-gpu` it is one of the host on CUDA, too, since what is drawn with it is the same code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding
from tpulint.model.devices.doors import holds_literal_device
from tpulint.model.devices.literals import is_formatted_cuda
from tpulint.model.values.kinds import Device
from tpulint.rule import Context, Rule

rule = Rule("TPU106", "random generator of a device", module=__name__, fix=Applicability.UNSAFE)


@rule.on(ast.Call, named={"Generator"})
def generator(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.qualified_name(call.func) != "torch.Generator":
        return
    device = next((word.value for word in call.keywords if word.arg == "device"), None)
    if device is None and call.args:
        device = call.args[0]
    if device is None or not _is_accelerator(device, ctx):
        return
    edit = ctx.replace(call, f"{ctx.text(call.func)}()")
    fix = ctx.fix("make it on the host", edit, applicability=Applicability.UNSAFE, serves_cuda=True)
    yield ctx.finding(call, "a generator of CUDA or torchax cannot be made on a TPU host", fix)


def _is_accelerator(device: ast.expr, ctx: Context) -> bool:
    if isinstance(device, ast.Constant):
        return str(device.value).partition(":")[0] in ("cuda", "jax")
    kind = ctx.kind(device)
    if isinstance(kind, Device) and kind.type:
        return kind.type in ("cuda", "jax")
    return is_formatted_cuda(device) or holds_literal_device(ctx.module, device, ctx.scope)
