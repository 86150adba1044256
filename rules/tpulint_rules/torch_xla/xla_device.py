"""Device of torch_xla.

## What it does

Reports:

- calls of `xm.xla_device()` and `torch_xla.device()`;
- strings that name a device of torch_xla, such as `"xla"` or `"xla:1"`, where PyTorch expects a device, and
  as the device type of `torch.autocast`;
- comparisons of the type of a device with `"xla"`, as in `x.device.type == "xla"`.

The rules `XLA` do not report a file that imports torch_xla only if it is installed, and does not ask
torch_xla for a device, as libraries do that call `xm.mark_step()` for users of torch_xla.
Such code does nothing under torchax.

## Why it matters on TPU

torch_xla and torchax are two backends for TPU, and cannot use each other's tensors.
torch_xla 2.9.0 is its last release, and needs PyTorch 2.9: without it, `import torch_xla` raises
`ModuleNotFoundError`, and `tensor.to("xla")` raises `NotImplementedError: Could not run
'aten::empty_strided' with arguments from the 'XLA' backend`.
The device of torchax is `"jax"`.

## Fix safety

The fix is unsafe, because `"jax"` works only in a program that enters the torchax environment, which the fix
of TPU001 (`missing-torchax-environment`) adds.
The fix removes the index of a device: a process of torch_xla uses one device, and a program on torchax all
devices of the host.

## Without a fix

`xm.xla_real_devices()` has no fix.
`jax.devices()` lists the devices.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.torch_xla import DEVICE_STRINGS, DEVICES, short_name
from tpulint.rules_api import Applicability, Change, Context, Finding, Rule

rule = Rule("XLA101", "device of `torch_xla`", module=__name__, fix=Applicability.UNSAFE)


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in DEVICES))
def xla_device(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = short_name(ctx.names.qualified(call.func))
    if name not in DEVICES:
        return
    fix = None
    is_taken = _is_taken(call, ctx)
    imports = () if is_taken else _imports(ctx)
    if imports is not None and name != "xm.xla_real_devices":
        new = '"jax"' if is_taken else 'torch.device("jax")'
        edit = ctx.rewrite.replace(call, new)
        title = f"replace `{name}` with the torchax device `{new}`"
        fix = ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
    yield ctx.finding(
        call, f"`{name}` returns a device of `torch_xla`, whose tensors torchax cannot use", fix
    )


def _is_taken(call: ast.Call, ctx: Context) -> bool:
    """Whether PyTorch takes the device at once, so that its name will do."""
    outer = ctx.parent(call)
    if isinstance(outer, ast.keyword):
        outer = ctx.parent(outer)
    return isinstance(outer, ast.Call) and ctx.devices.takes_device(outer, call)


def _imports(ctx: Context) -> tuple[Change, ...] | None:
    """The imports for `torch.device("jax")`, which raises before torchax is imported."""
    of_torchax = ("import torchax",) if ctx.program.is_import_time else ()
    return ctx.rewrite.imports("import torch", *of_torchax)


@rule.on(ast.Constant, named=DEVICE_STRINGS)
def device_string(literal: ast.Constant, ctx: Context) -> Iterator[Finding]:
    slot: ast.expr = literal
    outer = ctx.parent(literal)
    while isinstance(outer, ast.BoolOp) or (isinstance(outer, ast.IfExp) and outer.test is not slot):
        slot, outer = outer, ctx.parent(outer)
    if isinstance(outer, ast.keyword):
        outer = ctx.parent(outer)
    if isinstance(outer, ast.Compare):
        sides = (outer.left, *outer.comparators)
        is_type = any(isinstance(side, ast.Attribute) and side.attr == "type" for side in sides)
        is_device = is_type and ctx.program.runs_on_torch_xla
    elif isinstance(outer, ast.Call):
        is_device = ctx.devices.takes_device(outer, slot) or _is_autocast(outer, ctx)
    else:
        is_device = False
    if not is_device and not ctx.devices.becomes_device(literal):
        return
    quoted = ctx.rewrite.quoted("jax", literal)
    fix = ctx.rewrite.fix(
        f"replace `{ctx.text(literal)}` with the torchax device `{quoted}`",
        ctx.rewrite.replace(literal, quoted),
        applicability=Applicability.UNSAFE,
    )
    yield ctx.finding(
        literal, f"`{ctx.text(literal)}` is a device of `torch_xla`; the TPU is the torchax device `jax`", fix
    )


def _is_autocast(call: ast.Call, ctx: Context) -> bool:
    name = ctx.names.qualified(call.func) or ""
    return name.startswith("torch.") and name.rpartition(".")[2] == "autocast"
