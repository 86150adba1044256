"""`.cuda()` call on a tensor or module.

## What it does

Reports `.cuda(...)`, with any arguments, on a value that is, or may be, a tensor or a `torch.nn.Module`.

## Why it matters on TPU

torchax does not change `.cuda()`.
On a host without an NVIDIA GPU, `.cuda()` raises `AssertionError: Torch not compiled with CUDA enabled`, or
`RuntimeError: Found no NVIDIA driver on your system`.
`.cuda()` also raises inside the torchax environment.
`.to("jax")` moves a tensor or a module to the TPU.

## Fix safety

In a program that does not enter the torchax environment yet, the fix is unsafe: `"jax"` raises there until
the fix of TPU001 (`missing-torchax-environment`) is applied, too.

The fix replaces `.cuda()` with `.to("jax")`.

- The fix is safe if `.cuda()` is called on a value that is known to be a tensor or a module.
- The fix is unsafe if `.cuda()` is called on a value of unknown type.
  An object of another class may have a `cuda` method of its own, and the fix would break this call.
- The fix is unsafe if a variable is passed as the device index.
  The fix removes the index: torchax has only one device, `"jax"`, so all indices then select this device.

The fix keeps the arguments `non_blocking` and `memory_format`.

## Without a fix

The calls `.cuda(*args)` and `.cuda(**options)` have no fix.
Replace such a call with `.to("jax")`, and add other arguments, such as `non_blocking=True`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Applicability, Context, Finding, Fix, Instance, Rule, Tensor, Unknown
from tpulint.rules_api.syntax import is_cuda_location

rule = Rule(
    "TPU101",
    "`.cuda()` call on a tensor or module",
    module=__name__,
    fix=Applicability.SAFE,
    targets=EVERY_TARGET,
)

_PARAMETERS = ("device", "non_blocking", "memory_format")
#: What names a device besides variables.
_PLAIN = (int, str, type(None))


@rule.on(ast.Call, named={"cuda"})
def cuda_call(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or ctx.names.qualified(call.func) is not None:
        return
    if any(keyword.arg not in (*_PARAMETERS, None) for keyword in call.keywords) or len(call.args) > len(
        _PARAMETERS
    ):
        return
    if is_cuda_location(ctx.parent(call)):  # a storage has no other `.to`
        return
    receiver = ctx.types.of(call.func.value)
    if isinstance(receiver, Instance) and ctx.types.defines_method(receiver.cls, "cuda"):
        return
    if (
        isinstance(call.func.value, ast.Call)
        and ctx.names.qualified(call.func.value.func) == "builtins.super"
    ):
        return
    known = isinstance(receiver, Tensor) or ctx.types.is_module(receiver)
    if not known and not isinstance(receiver, Unknown):
        return
    if isinstance(receiver, Instance) and not known:
        return
    what = "module" if ctx.types.is_module(receiver) else "tensor"
    message = f"`.cuda()` moves the {what} to an NVIDIA GPU and raises on a TPU host"
    yield ctx.finding(call, message, _to_jax(call, ctx, known=known))


def _to_jax(call: ast.Call, ctx: Context, *, known: bool) -> Fix | None:
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return None
    given = ctx.rewrite.arguments(call)
    names = [
        node.arg if isinstance(node, ast.keyword) else name
        for node, name in zip(given, _PARAMETERS, strict=False)
    ]
    device = dict(zip(names, given, strict=True)).get("device")
    value = device.value if isinstance(device, ast.keyword) else device
    constant = value is None or (isinstance(value, ast.Constant) and type(value.value) in _PLAIN)
    changes = [ctx.rewrite.rename(call.func, "to"), ctx.rewrite.add_argument(call, '"jax"', 0)]
    for node, name in zip(given, names, strict=True):
        if device is not None and node is device:
            changes.append(ctx.rewrite.remove_argument(node))
        elif not isinstance(node, ast.keyword) and name is not None:
            changes.append(ctx.rewrite.name_argument(node, name))
    return ctx.rewrite.fix(
        'replace `.cuda()` with `.to("jax")`',
        *changes,
        applicability=Applicability.SAFE if known and constant else Applicability.UNSAFE,
    )
