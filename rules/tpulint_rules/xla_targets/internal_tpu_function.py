"""Function of `torch.tpu` that only PyTorch itself may call.

## What it does

With the target `torchtpu`, reports calls of functions of `torch.tpu` that are internal in torch-tpu 0.2.0,
such as `torch.tpu.synchronize()`, `torch.tpu.is_available()` and `torch.tpu.device_count()`.
They are the functions that code gets if `torch.cuda` is replaced with `torch.tpu` in it.

## Why it matters on TPU

They raise `RuntimeError: synchronize is internal to TorchTPU and can only be called by the PyTorch framework
(torch and torch_tpu). Use torch.accelerator.synchronize instead.`

## Fix safety

The fix is safe: it calls the function of `torch.accelerator` that the error names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.targets import TORCHTPU
from tpulint.knowledge.torchtpu_api import INTERNAL, TORCH_TPU_VERSION
from tpulint.rules_api import Applicability, Context, Finding, Rule

rule = Rule(
    "XLA206",
    "function of `torch.tpu` that only PyTorch itself may call",
    module=__name__,
    fix=Applicability.SAFE,
    targets={TORCHTPU.name},
)


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in INTERNAL))
def internal(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in INTERNAL:
        return
    new, fix = INTERNAL[name], None
    imports = ctx.rewrite.imports("import torch")
    if imports is not None:
        edit = ctx.rewrite.replace(call.func, new)
        fix = ctx.rewrite.fix(f"replace `{name}` with `{new}`", edit, *imports)
    yield ctx.finding(call, f"`{name}` raises in torch-tpu {TORCH_TPU_VERSION}, where it is internal", fix)
