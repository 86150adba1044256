"""Activation checkpoint without `use_reentrant`.

## What it does

The rule reports calls of `torch.utils.checkpoint.checkpoint` and
`torch.utils.checkpoint.checkpoint_sequential` without the argument `use_reentrant`.

## Why it matters

Without the argument, torch 2.13 prints a warning: later versions are to raise an exception.
Until then, it uses the reentrant implementation, which has these limits:

- If no input of the checkpoint requires a gradient, the parameters of the checkpoint get no gradient.
- `torch.autograd.grad` raises `RuntimeError`.
- A checkpoint of a function with keyword arguments raises `ValueError`.

With `use_reentrant=False`, all of these work.
These results were measured with torch 2.13.0.

## Fix safety

The fix adds `use_reentrant=False`, as PyTorch recommends.
The fix is unsafe: the gradients are the same, but hooks and random numbers can behave differently.
To keep the old implementation, add `use_reentrant=True` by hand.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Applicability, Context, Finding, Rule

rule = Rule(
    "UPG105",
    "activation checkpoint without `use_reentrant`",
    module=__name__,
    fix=Applicability.UNSAFE,
    optional=True,
    targets=EVERY_TARGET,
)

_FUNCTIONS = frozenset({"checkpoint", "checkpoint_sequential"})


@rule.on(ast.Call, named=_FUNCTIONS)
def checkpoint(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    module, _, name = (ctx.names.qualified(call.func) or "").rpartition(".")
    if module != "torch.utils.checkpoint" or name not in _FUNCTIONS:
        return
    if any(word.arg in (None, "use_reentrant") for word in call.keywords):
        return
    edit = ctx.rewrite.add_argument(call, "use_reentrant=False")
    fix = ctx.rewrite.fix("add `use_reentrant=False`", edit, applicability=Applicability.UNSAFE)
    message = (
        f"`{name}` without `use_reentrant` prints a warning, and will raise in later versions of PyTorch"
    )
    yield ctx.finding(call, message, fix)
