"""Default device or default tensor type set to CUDA or torchax.

## What it does

Reports:

- `torch.set_default_device` with a CUDA device, with `"jax"`, or with a variable that holds the program's
  device;
- `torch.set_default_tensor_type` with a CUDA type;
- `torch.Tensor(...)` in a program that calls `torch.set_default_tensor_type` with a CUDA type, unless the
  program immediately moves the new tensor.

## Why it matters on TPU

- After `torch.set_default_device("cuda")`, the creation of a tensor raises `AssertionError: Torch not
  compiled with CUDA enabled`.
- After `torch.set_default_device("jax")`, the creation of a tensor raises `RuntimeError: PyTorch is not
  linked with support for jax devices`, inside the torchax environment too.
- `torch.set_default_tensor_type("torch.cuda.FloatTensor")` raises `TypeError: type torch.cuda.FloatTensor not
  available. Torch not compiled with CUDA enabled.`

With torchax, set the default device with the context manager `with torch.device("jax"):`.
To set the default device for the rest of the program, call `torch.device("jax").__enter__()`.

`torch.Tensor([1.0])` depends on the default tensor type but not on the default device, so it creates a CPU
tensor even after `torch.device("jax").__enter__()`.
An operation that combines this CPU tensor with a device tensor raises.

## Fix safety

The fix is unsafe, because the default device of torchax does not apply to all new tensors.
The fix enters the device with `torch.device("jax").__enter__()`, and adds `.to("jax")` to
`torch.Tensor(...)`.

- The default device applies only if the program calls `__enter__()` inside the torchax environment.
- `torch.FloatTensor(...)` creates a CPU tensor, whatever the default device is.
- If the default dtype is `float64`, torchax creates `float32` tensors.

## Without a fix

Remove the call that sets the default device or the default tensor type.
Enter the device with `torch.device("jax").__enter__()` inside the torchax environment.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.cuda_api import TENSOR_DTYPES
from tpulint.rules_api import Applicability, Context, Device, Finding, Fix, Rule, Static

rule = Rule(
    "TPU105",
    "default device or default tensor type set to CUDA or torchax",
    module=__name__,
    fix=Applicability.UNSAFE,
)


@rule.on(ast.Call, named={"set_default_device"})
def default_device(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "torch.set_default_device" or len(call.args) != 1:
        return
    device = call.args[0]
    kind = ctx.types.of(device)
    constant = isinstance(device, ast.Constant) and str(device.value).partition(":")[0] in ("cuda", "jax")
    named = isinstance(kind, Device) and kind.type in ("cuda", "jax")
    if not (constant or named or ctx.devices.holds_literal_device(device)):
        return
    text = ctx.devices.jax_form(device) or ctx.text(device)
    message = (
        "on a TPU host, creating a tensor raises after `torch.set_default_device`, even for the device `jax`"
    )
    yield ctx.finding(call, message, _entered(call, text, None, ctx))


@rule.on(ast.Call, named={"set_default_tensor_type"})
def default_type(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "torch.set_default_tensor_type" or len(call.args) != 1:
        return
    name = next((one for one in ctx.names.default_tensor_types(call) if one.startswith("torch.cuda.")), None)
    if name is not None:
        dtype = TENSOR_DTYPES.get(name.rpartition(".")[2])
        fix = _entered(call, '"jax"', dtype, ctx) if dtype is not None else None
        yield ctx.finding(call, f"the default tensor type `{name}` raises on a TPU host without CUDA", fix)


@rule.on(ast.Call, named={"Tensor"})
def of_default_type(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "torch.Tensor" or len(call.args) != 1 or call.keywords:
        return
    around = ctx.parent(call)
    if not ctx.program.has_cuda_default or ctx.devices.only_with_cuda(call):
        return
    if isinstance(around, ast.Attribute) and around.attr in ("to", "cuda", "cpu", "numpy"):
        return
    kind = ctx.types.of(call.args[0])
    is_size = isinstance(kind, Static) and type(kind.value) is int
    if is_size:
        return  # that is another rule's
    fix = ctx.rewrite.fix(
        'move the new tensor to the TPU with `.to("jax")`',
        ctx.rewrite.wrap(call, "", '.to("jax")'),
        applicability=Applicability.UNSAFE,
    )
    message = (
        "`torch.Tensor(...)` creates a CPU tensor on a TPU host, where no CUDA tensor type can be the default"
    )
    yield ctx.finding(call, message, fix)


def _asks_for_cuda(test: ast.expr, ctx: Context) -> bool:
    """Whether the condition only checks whether CUDA or an accelerator is available."""
    asked = ctx.names.qualified(test.func) if isinstance(test, ast.Call) else None
    return asked in ("torch.cuda.is_available", "torch.accelerator.is_available")


def _entered(call: ast.Call, device: str, dtype: str | None, ctx: Context) -> Fix | None:
    statement = ctx.statement(call)
    imports = ctx.rewrite.imports(
        "import torch", *(("import torchax",) if ctx.program.is_import_time else ())
    )
    if imports is None or not isinstance(statement, ast.Expr) or statement.value is not call:
        return None
    made = device if device.startswith("torch.device(") else f"torch.device({device})"
    lines = [f"{made}.__enter__()"]
    if dtype not in (None, "float32"):
        lines.append(f"torch.set_default_dtype(torch.{dtype})")
    source = ctx.source
    gap = f"{source.newline}{source.margin(statement)}"
    text = ("; " if source.shares_row(statement) else gap).join(lines)
    choice = call.args[0]
    if dtype is not None and isinstance(choice, ast.IfExp) and not _asks_for_cuda(choice.test, ctx):
        if not isinstance(choice.body, ast.Attribute | ast.Constant) or "cuda" not in ctx.text(choice.body):
            return None
        gap = f"{gap}{source.indent}"
        text = f"if {ctx.text(choice.test)}:{gap}{gap.join(lines)}"
    edit = ctx.rewrite.replace(statement, text)
    title = f"replace `{ctx.text(call.func)}(...)` with `{made}.__enter__()`, which sets the default device"
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
