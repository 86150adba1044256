"""`torch.Generator` on a CUDA or torchax device.

## What it does

Reports `torch.Generator(device=...)` with a CUDA device, with `"jax"`, or with a variable that holds the
program's device.

## Why it matters on TPU

- `torch.Generator(device="cuda")` raises `RuntimeError: Cannot get CUDA generator without ATen_cuda library`.
- `torch.Generator(device="jax")` raises `RuntimeError: Please register PrivateUse1HooksInterface by
  RegisterPrivateUse1HooksInterface first`.

torchax does not implement `torch.Generator` on its device.
A CPU generator works for tensors that are drawn on the host and then moved to the device.

## Fix safety

The fix is unsafe: it creates a CPU generator, which draws different random numbers than a CUDA generator.

- The fix of TPU614 (`wrong-random-numbers`) then changes the calls that use the generator.
  The changed calls draw the tensor on the host and move it to the device.
- With `--keep-gpu`, the fixed program uses a CPU generator on CUDA too, because the code that uses the
  generator is the same for CUDA and torchax.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Device, Finding, Rule
from tpulint.rules_api.syntax import is_formatted_cuda

rule = Rule(
    "TPU106", "`torch.Generator` on a CUDA or torchax device", module=__name__, fix=Applicability.UNSAFE
)


@rule.on(ast.Call, named={"Generator"})
def generator(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "torch.Generator":
        return
    device = next((word.value for word in call.keywords if word.arg == "device"), None)
    if device is None and call.args:
        device = call.args[0]
    if device is None or not _is_accelerator(device, ctx):
        return
    edit = ctx.rewrite.replace(call, f"{ctx.text(call.func)}()")
    title = f"replace the generator with a CPU generator, `{ctx.text(call.func)}()`"
    fix = ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE, serves_cuda=True)
    yield ctx.finding(call, "on a TPU host, `torch.Generator` raises for a CUDA or torchax device", fix)


def _is_accelerator(device: ast.expr, ctx: Context) -> bool:
    """Whether the device is a CUDA or torchax device."""
    if isinstance(device, ast.Constant):
        return str(device.value).partition(":")[0] in ("cuda", "jax")
    kind = ctx.types.of(device)
    if isinstance(kind, Device) and kind.type:
        return kind.type in ("cuda", "jax")
    return is_formatted_cuda(device) or ctx.devices.holds_literal_device(device)
