"""Pinned host memory.

## What it does

Flags `tensor.pin_memory()`, `DataLoader(..., pin_memory=True)` and `torch.empty(..., pin_memory=True)` and
its like, also with a flag that may be true on a TPU host, and the key in a mapping, `{"pin_memory": True}` or
`dict(pin_memory=True)`, in a file where a loader unpacks one.
A `pin_memory` that depends on something else, such as `torch.cuda.is_available()`, is left alone.

## Why it matters on TPU

Pages of the host are pinned for copies to a CUDA device.
Once torchax is imported torch takes its device for one that can pin, and all raise
`RuntimeError: Please register PrivateUse1HooksInterface by RegisterPrivateUse1HooksInterface first`; a loader
does so with its first batch.

## Fix safety

Safe: nothing but the pinning goes.
Unsafe for the key in a mapping, which may be read for another reason too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Span
from tpulint.knowledge.tensors import FACTORIES
from tpulint.model.devices.doors import is_served_flag
from tpulint.model.values.kinds import Tensor
from tpulint.rule import Context, Rule

rule = Rule("TPU703", "pinned host memory", module=__name__, fix=Applicability.SAFE)

_LOADERS = frozenset({"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"})
#: What makes a tensor that may be pinned.
_MAKERS = FACTORIES | {"empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"}
_KEYWORDS = frozenset({"pin_memory", "pin_memory_device"})
_WITH_CUDA = "torch.cuda.is_available()"
_RAISES = "raises once torchax is imported; there is nothing to pin for a TPU"


@rule.on(ast.Call, named={"pin_memory"})
def pinned(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or not isinstance(ctx.kind(call.func.value), Tensor):
        return
    edit = ctx.edit(Span(ctx.span(call.func.value).end, ctx.span(call).end), "")
    yield ctx.finding(call, f"`.pin_memory()` {_RAISES}", ctx.fix("remove the pinning", edit))


@rule.on(ast.Call, named={"DataLoader"} | _MAKERS)
def loader(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    word = next((keyword for keyword in call.keywords if keyword.arg == "pin_memory"), None)
    if word is None or not _pins(word.value, ctx):
        return
    name = ctx.qualified_name(call.func) or ""
    if name not in _LOADERS and not (name.startswith("torch.") and name.removeprefix("torch.") in _MAKERS):
        return
    if ctx.module.project.keeps_gpu:
        fix = ctx.fix("leave it to where there is CUDA", ctx.replace(word.value, _WITH_CUDA))
    else:
        fix = ctx.fix("remove the pinning", ctx.without_keywords(call, _KEYWORDS))
    yield ctx.finding(word.value, f"`pin_memory={ctx.text(word.value)}` {_RAISES}", fix)


@rule.on(ast.Constant, named={"pin_memory"})
def in_mapping(key: ast.Constant, ctx: Context) -> Iterator[Finding]:
    yield from _turned_off(key, ctx)


@rule.on(ast.Call, named={"dict"})
def in_dict(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    yield from _turned_off(call, ctx)


def _turned_off(node: ast.expr, ctx: Context) -> Iterator[Finding]:
    value = ctx.options(node, "DataLoader").get("pin_memory")
    if value is not None and _pins(value, ctx):
        edit = ctx.replace(value, _WITH_CUDA if ctx.module.project.keeps_gpu else "False")
        fix = ctx.fix("turn pinning off", edit, applicability=Applicability.UNSAFE)
        yield ctx.finding(value, f"`pin_memory` {_RAISES}", fix)


def _pins(value: ast.expr, ctx: Context) -> bool:
    """Whether a value is true, or a flag that may be so on a TPU host."""
    if isinstance(value, ast.Constant):
        return value.value is True
    return is_served_flag(ctx.module, value, ctx.scope)
