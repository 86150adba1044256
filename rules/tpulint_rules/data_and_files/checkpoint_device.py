"""Checkpoint loaded onto a CUDA or torchax device.

## What it does

Flags `torch.load(..., map_location="cuda")` and its forms with an index, `map_location="jax"`, and a location
that is the program's device: a name that a literal for such a device is handed to, in any file.
Other locations that are computed are left alone.

## Why it matters on TPU

With a CUDA location `torch.load` raises `RuntimeError: Attempting to deserialize object on a CUDA device but
torch.cuda.is_available() is False`, and with `"jax"`
`AttributeError: module 'torchax.device_module' has no attribute 'device'`.

## Fix safety

Unsafe: the location becomes `"cpu"`.
What is loaded then is on the host: right where it goes into `load_state_dict`, which copies it to where the
module is; tensors that are used as they come need `.to("jax")`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding
from tpulint.model.devices import holds_literal_device
from tpulint.model.kinds import Device, Static
from tpulint.rule import Context, Rule

rule = Rule("TPU704", "checkpoint loaded onto a device", module=__name__, fix=Applicability.UNSAFE)


@rule.on(ast.Call, named={"load"})
def loaded(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.qualified_name(call.func) != "torch.load":
        return
    place = next((k.value for k in call.keywords if k.arg == "map_location"), None)
    if place is None and len(call.args) > 1:
        place = call.args[1]
    kind = ctx.kind(place) if place is not None else None
    name = kind.type if isinstance(kind, Device) else kind.value if isinstance(kind, Static) else None
    if place is None:
        return
    if not isinstance(name, str) or name.partition(":")[0] not in ("cuda", "jax"):
        if name or not holds_literal_device(ctx.module, place, ctx.scope):
            return
        name = ctx.text(place)
    edit = ctx.replace(place, ctx.quoted("cpu", place))
    fix = ctx.fix("read it to the host", edit, applicability=Applicability.UNSAFE)
    yield ctx.finding(place, f"`torch.load` cannot put tensors on `{name}` under torchax", fix)
