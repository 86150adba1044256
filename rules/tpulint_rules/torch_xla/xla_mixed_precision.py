"""Mixed precision with torch_xla.

## What it does

Reports `autocast` and `GradScaler` of `torch_xla.amp`.
XLA101 (`xla-device`) reports `torch.autocast("xla")`.

## Why it matters on TPU

Without torch_xla, these classes do not exist. `torch_xla.amp.GradScaler` does not exist in torch_xla 2.9.0
either.
In programs with the runtime torchax-compat, `torch.autocast("jax")` computes in bfloat16, which needs no
scaling of the loss.

## Fix safety

The fix is unsafe, because it is a part of the change from torch_xla to torchax.

- `autocast(device, ...)` becomes `torch.autocast("jax", ...)`.
- `GradScaler` of torch_xla becomes that of `torch.amp`, which TPU204 (`cuda-mixed-precision`) then removes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.torch_xla import short_name
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule

rule = Rule("XLA111", "mixed precision with `torch_xla`", module=__name__, fix=Applicability.UNSAFE)

_NEW = {"amp.autocast": "torch.autocast", "amp.GradScaler": "torch.amp.GradScaler"}


@rule.on(ast.Call, named={"autocast", "GradScaler"})
def mixed_precision(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = short_name(ctx.names.qualified(call.func))
    if name not in _NEW:
        return
    message = f"`torch_xla.{name}` belongs to `torch_xla`, whose tensors torchax cannot use"
    yield ctx.finding(call, message, _fix(call, name, ctx))


def _fix(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    imports = ctx.rewrite.imports("import torch")
    if imports is None or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    edits = [ctx.rewrite.replace(call.func, _NEW[name])]
    if name == "amp.autocast":
        if len(call.args) != 1:
            return None
        edits.append(ctx.rewrite.replace(call.args[0], '"jax"'))
    elif call.args:
        return None
    title = f"replace `torch_xla.{name}` with `{_NEW[name]}`"
    return ctx.rewrite.fix(title, *edits, *imports, applicability=Applicability.UNSAFE)
