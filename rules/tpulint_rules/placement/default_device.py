"""Default device, or default tensor type, of CUDA or torchax.

## What it does

Flags `torch.set_default_device` with a CUDA device, with `"jax"`, or with the program's device by name, and
`torch.set_default_tensor_type` with a CUDA type.

## Why it matters on TPU

After `torch.set_default_device("cuda")` each new tensor raises `AssertionError: Torch not compiled with CUDA
enabled`, after `torch.set_default_device("jax")` `RuntimeError: PyTorch is not linked with support for jax
devices`, in the torchax environment too.
`torch.set_default_tensor_type("torch.cuda.FloatTensor")` raises `TypeError: type torch.cuda.FloatTensor not
available. Torch not compiled with CUDA enabled.`
A device that is entered as a context reaches torchax: `torch.device("jax").__enter__()` does it for good.

## Fix safety

Unsafe: it takes effect only where it runs inside the torchax environment, and the old
`torch.FloatTensor(...)` makes its tensors on the host still.
torchax makes `float32` of a default of `float64`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix
from tpulint.knowledge.cuda_api import TENSOR_DTYPES
from tpulint.model.devices.doors import holds_literal_device, jax_form
from tpulint.model.values.kinds import Device
from tpulint.rule import Context, Rule

rule = Rule(
    "TPU105",
    "default device, or default tensor type, of CUDA or torchax",
    module=__name__,
    fix=Applicability.UNSAFE,
)


@rule.on(ast.Call, named={"set_default_device"})
def default_device(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.qualified_name(call.func) != "torch.set_default_device" or len(call.args) != 1:
        return
    device = call.args[0]
    kind = ctx.kind(device)
    constant = isinstance(device, ast.Constant) and str(device.value).partition(":")[0] in ("cuda", "jax")
    named = isinstance(kind, Device) and kind.type in ("cuda", "jax")
    if not (constant or named or holds_literal_device(ctx.module, device, ctx.scope)):
        return
    text = jax_form(ctx.module, device, ctx.scope) or ctx.text(device)
    message = "`torch.set_default_device` fails with the first tensor that is made, with `jax` as well"
    yield ctx.finding(call, message, _entered(call, text, None, ctx))


@rule.on(ast.Call, named={"set_default_tensor_type"})
def default_type(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.qualified_name(call.func) != "torch.set_default_tensor_type" or len(call.args) != 1:
        return
    given = call.args[0]
    name = given.value if isinstance(given, ast.Constant) else ctx.qualified_name(given)
    if isinstance(name, str) and name.startswith("torch.cuda."):
        dtype = TENSOR_DTYPES.get(name.rpartition(".")[2])
        fix = _entered(call, '"jax"', dtype, ctx) if dtype is not None else None
        yield ctx.finding(call, f"`{name}` raises where there is no NVIDIA GPU", fix)


def _entered(call: ast.Call, device: str, dtype: str | None, ctx: Context) -> Fix | None:
    statement = ctx.statement(call)
    imports = ctx.imports("import torch", *(("import torchax",) if ctx.is_import_time else ()))
    if imports is None or not isinstance(statement, ast.Expr) or statement.value is not call:
        return None
    made = device if device.startswith("torch.device(") else f"torch.device({device})"
    text = f"{made}.__enter__()"
    if dtype not in (None, "float32"):
        text = f"{text}; torch.set_default_dtype(torch.{dtype})"
    edit = ctx.replace(statement, text)
    return ctx.fix("enter the torchax device", edit, *imports, applicability=Applicability.UNSAFE)
