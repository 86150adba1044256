"""Device loader of torch_xla.

## What it does

Reports `pl.MpDeviceLoader` and `pl.ParallelLoader` of torch_xla, which move the batches of a `DataLoader` to
the device.

## Why it matters on TPU

Both loaders move tensors to a device of torch_xla, whose tensors torchax cannot use.
Without torch_xla, they do not exist, and a loop over the `DataLoader` itself gets tensors of the host.

## Fix safety

The fix is unsafe, because it is a part of the change from torch_xla to torchax.
It replaces the loader with `torchax_compat.data.DeviceLoader`, of the runtime, which moves each batch to the
device when it is read:

- Arguments for prefetching are removed. The workers of a `DataLoader` still load batches ahead.
- `input_sharding` becomes `sharding`; XLA109 (`xla-sharding`) rewrites its value.
- Unlike `ParallelLoader`, a `DeviceLoader` can be iterated over several times.

## Without a fix

If a `ParallelLoader` is stored in a variable, and used for anything but `per_device_loader(device)`, replace
its uses.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.torch_xla import DEVICE_LOADER, short_name
from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Rule

rule = Rule("XLA104", "device loader of `torch_xla`", module=__name__, fix=Applicability.UNSAFE)

_LOADERS = {"pl.MpDeviceLoader": ("loader", "device"), "pl.ParallelLoader": ("loader", "devices")}
_FORMER_NAMES = {"cpu_loader": "loader"}
_OF_DEVICE = "per_device_loader"
_TITLE = f"replace the loader with `{DEVICE_LOADER}`"


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in _LOADERS))
def device_loader(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = short_name(ctx.names.qualified(call.func))
    if name not in _LOADERS or not ctx.program.runs_on_torch_xla:
        return
    message = f"`{name}` moves batches to a device of `torch_xla`, whose tensors torchax cannot use"
    yield ctx.finding(call, message, _fix(call, name, ctx))


def _fix(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    imports = ctx.rewrite.runtime_import()
    if imports is None or any(isinstance(one, ast.Starred) for one in call.args) or len(call.args) > 2:
        return None
    if any(word.arg is None for word in call.keywords):
        return None
    edits = _of_one_device(call, ctx) if name == "pl.MpDeviceLoader" else _of_devices(call, ctx)
    if edits is None:
        return None
    return ctx.rewrite.fix(_TITLE, *edits, *imports, applicability=Applicability.UNSAFE)


def _of_one_device(call: ast.Call, ctx: Context) -> list[Change] | None:
    """The edits of an `MpDeviceLoader`, whose arguments may be rewritten still."""
    edits: list[Change] = [ctx.rewrite.replace(call.func, DEVICE_LOADER)]
    for word in call.keywords:
        if word.arg == "input_sharding":
            edits.append(ctx.rewrite.rename(word, "sharding"))
        elif word.arg not in ("loader", "device"):
            edits.append(ctx.rewrite.remove_argument(word))
    return edits


def _of_devices(call: ast.Call, ctx: Context) -> list[Change] | None:
    """The edits of a `ParallelLoader`, and of the calls that take the loader of a device from it."""
    given = dict(zip(_LOADERS["pl.ParallelLoader"], call.args, strict=False))
    given |= {_FORMER_NAMES.get(word.arg or "", word.arg or ""): word.value for word in call.keywords}
    devices = given.get("devices")
    if "loader" not in given or not isinstance(devices, ast.List | ast.Tuple) or len(devices.elts) != 1:
        return None
    new = f"{DEVICE_LOADER}({ctx.text(given['loader'])}, {ctx.text(devices.elts[0])})"
    outer = ctx.parent(call)
    if isinstance(outer, ast.Attribute):
        taken = ctx.parent(outer)
        if outer.attr == _OF_DEVICE and isinstance(taken, ast.Call) and taken.func is outer:
            return [ctx.rewrite.replace(taken, new)]
        return None
    statement = ctx.statement(call)
    if not isinstance(statement, ast.Assign) or statement.value is not call or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or len(ctx.names.assigned_values(target)) != 1:
        return None
    edits: list[Change] = [ctx.rewrite.replace(call, new)]
    for use in ctx.names.loads(target.id):
        attribute = ctx.parent(use)
        taken = ctx.parent(attribute) if isinstance(attribute, ast.Attribute) else None
        if not isinstance(attribute, ast.Attribute) or attribute.attr != _OF_DEVICE:
            return None
        if not isinstance(taken, ast.Call) or taken.func is not attribute:
            return None
        edits.append(ctx.rewrite.replace(taken, target.id))
    return edits
