"""Function that torch_xla 2.9 removed or deprecated.

## What it does

With the target `torch_xla`, reports functions of earlier releases of torch_xla, such as `xm.xla_device()`,
`xm.mark_step()`, `xm.get_ordinal()` and `xm.xrt_world_size()`.

## Why it matters on TPU

In torch_xla 2.9.0, `xm.get_ordinal()` and `xm.xrt_world_size()` raise `AttributeError`;
`xm.xla_device()` and `xm.mark_step()` warn that they are deprecated.

## Fix safety

The fix is safe: it calls the function that torch_xla names instead, which does the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.targets import TORCH_XLA
from tpulint.knowledge.torch_xla import DEPRECATED, OUTDATED, short_name
from tpulint.rules_api import Applicability, Context, Finding, Rule, Severity

rule = Rule(
    "XLA202",
    "function that `torch_xla` 2.9 removed or deprecated",
    module=__name__,
    fix=Applicability.SAFE,
    targets={TORCH_XLA.name},
)


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in OUTDATED))
def outdated(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = short_name(ctx.names.qualified(call.func))
    if name not in OUTDATED:
        return
    new, what = OUTDATED[name]
    needed = "import torch_xla.runtime as xr" if new.startswith("xr.") else "import torch_xla"
    imports = ctx.rewrite.imports(needed)
    fix = None
    if imports is not None and not (call.args and name == "xm.xla_device"):
        edit = ctx.rewrite.replace(call.func, new)
        fix = ctx.rewrite.fix(f"replace `{name}` with `{new}`", edit, *imports)
    severity = Severity.COSMETIC if what == DEPRECATED else Severity.BLOCKS
    yield ctx.finding(call, f"`{name}` {what} in `torch_xla` 2.9.0", fix, severity=severity)
