"""Pinned host memory.

## What it does

The rule reports:

- `tensor.pin_memory()`;
- `DataLoader(..., pin_memory=True)`;
- `torch.empty(..., pin_memory=True)` and similar factory functions;
- `{"pin_memory": True}` or `dict(pin_memory=True)`, in a file that unpacks such a mapping into a
  `DataLoader`.

A variable or option that may be true on a TPU host counts as `True`.
The rule does not report a computed argument, such as `pin_memory=torch.cuda.is_available()`, which is false
on a TPU host.

## Why it matters on TPU

Pinned memory makes copies from the host to a CUDA device faster; a TPU does not need it.
After `import torchax`, torch assumes that the torchax device supports pinned memory, which is wrong.
The reported calls then raise `RuntimeError: Please register PrivateUse1HooksInterface by
RegisterPrivateUse1HooksInterface first`.
A `DataLoader` raises this error when it creates its first batch.

## Fix safety

- The fix is safe for a call: it removes only `pin_memory`, so the tensors have the same values.
- The fix is unsafe for a dictionary, because other code may read the key `"pin_memory"` of the same
  dictionary.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tensors import FACTORIES
from tpulint.knowledge.training import LOADERS
from tpulint.rules_api import Applicability, Context, Finding, Rule, Tensor

rule = Rule("TPU703", "pinned host memory", module=__name__, fix=Applicability.SAFE)

#: What makes a tensor that may be pinned.
_MAKERS = FACTORIES | {"empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"}
_KEYWORDS = frozenset({"pin_memory", "pin_memory_device"})
_WITH_CUDA = "torch.cuda.is_available()"
_RAISES = "raises after `import torchax`; pinned memory only speeds up copies to CUDA devices"


@rule.on(ast.Call, named={"pin_memory"})
def pinned(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or not isinstance(ctx.types.of(call.func.value), Tensor):
        return
    edit = ctx.rewrite.reduce(call, call.func.value)
    yield ctx.finding(
        call, f"`.pin_memory()` {_RAISES}", ctx.rewrite.fix("remove the call to `.pin_memory()`", edit)
    )


@rule.on(ast.Call, named={"DataLoader"} | _MAKERS)
def loader(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    word = next((keyword for keyword in call.keywords if keyword.arg == "pin_memory"), None)
    if word is None or not _pins(word.value, ctx):
        return
    name = ctx.names.qualified(call.func) or ""
    if name not in LOADERS and not (name.startswith("torch.") and name.removeprefix("torch.") in _MAKERS):
        return
    if ctx.program.keeps_cuda:
        title = f"replace the value of `pin_memory` with `{_WITH_CUDA}`"
        fix = ctx.rewrite.fix(title, ctx.rewrite.replace(word.value, _WITH_CUDA))
    else:
        fix = ctx.rewrite.fix(
            "remove the argument `pin_memory`", *ctx.rewrite.without_keywords(call, _KEYWORDS)
        )
    yield ctx.finding(word.value, f"`pin_memory={ctx.text(word.value)}` {_RAISES}", fix)


@rule.on(ast.Constant, named={"pin_memory"})
def in_mapping(key: ast.Constant, ctx: Context) -> Iterator[Finding]:
    yield from _turned_off(key, ctx)


@rule.on(ast.Call, named={"dict"})
def in_dict(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    yield from _turned_off(call, ctx)


def _turned_off(node: ast.expr, ctx: Context) -> Iterator[Finding]:
    value = ctx.names.options(node, "DataLoader").get("pin_memory")
    if value is not None and _pins(value, ctx):
        new = _WITH_CUDA if ctx.program.keeps_cuda else "False"
        title = f"replace the value of `pin_memory` with `{new}`"
        fix = ctx.rewrite.fix(title, ctx.rewrite.replace(value, new), applicability=Applicability.UNSAFE)
        yield ctx.finding(value, f"the `DataLoader` option `pin_memory` {_RAISES}", fix)


def _pins(value: ast.expr, ctx: Context) -> bool:
    """Whether `pin_memory` is true, or a flag that may be true on a TPU host."""
    if isinstance(value, ast.Constant):
        return value.value is True
    return ctx.devices.is_served_flag(value)
