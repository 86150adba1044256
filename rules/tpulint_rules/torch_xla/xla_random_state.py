"""Random state of torch_xla.

## What it does

Reports `torch_xla.manual_seed(seed)` and `xm.set_rng_state(seed)`.

## Why it matters on TPU

Without torch_xla, these functions do not exist.
torchax draws random numbers on the device from the state of its environment.

## Fix safety

The fix is unsafe, because torchax draws other numbers than torch_xla for the same seed.
It replaces the call with `torchax.default_env().manual_seed(seed)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.torch_xla import short_name
from tpulint.rules_api import Applicability, Context, Finding, Rule

rule = Rule("XLA112", "random state of `torch_xla`", module=__name__, fix=Applicability.UNSAFE)

_CALLS = frozenset({"torch_xla.manual_seed", "xm.set_rng_state"})


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in _CALLS))
def seeded(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = short_name(ctx.names.qualified(call.func))
    if name not in _CALLS or not ctx.program.runs_on_torch_xla:
        return
    seeds = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "seed")]
    imports, fix = ctx.rewrite.imports("import torchax"), None
    if imports is not None and seeds and not isinstance(seeds[0], ast.Starred):
        edit = ctx.rewrite.replace(call, f"torchax.default_env().manual_seed({ctx.text(seeds[0])})")
        title = f"replace `{name}` with `torchax.default_env().manual_seed`"
        fix = ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
    yield ctx.finding(call, f"`{name}` seeds the random numbers of `torch_xla`, not those of torchax", fix)
