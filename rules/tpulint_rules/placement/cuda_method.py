"""`.cuda()` call on a tensor or module.

## What it does

Flags `.cuda(...)`, with any arguments, on what is a tensor or a `torch.nn.Module`, or may be one.

## Why it matters on TPU

torchax does not take over `.cuda()`.
On a host without an NVIDIA GPU it raises `AssertionError: Torch not compiled with CUDA enabled`, or
`RuntimeError: Found no NVIDIA driver on your system`, even inside the torchax environment.
Tensors go to the TPU by `.to("jax")`.

## Fix safety

Safe where the receiver is known to be a tensor or a module.
Where nothing is known of the receiver, the fix is unsafe: an object of another kind with a `cuda`
method of its own would be broken.
The device index is dropped, since torchax has one logical device (unsafe where it is a variable);
`non_blocking` and `memory_format` are kept.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix
from tpulint.model.kinds import Instance, Tensor, Unknown
from tpulint.rule import Context, Rule

rule = Rule("TPU101", "`.cuda()` call on a tensor or module", module=__name__, fix=Applicability.SAFE)

_PARAMETERS = ("device", "non_blocking", "memory_format")


@rule.on(ast.Call, named={"cuda"})
def cuda_call(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or ctx.qualified_name(call.func) is not None:
        return
    if any(keyword.arg not in (*_PARAMETERS, None) for keyword in call.keywords) or len(call.args) > len(
        _PARAMETERS
    ):
        return
    receiver = ctx.kind(call.func.value)
    if isinstance(receiver, Instance) and ctx.defines_method(receiver, "cuda"):
        return
    if isinstance(call.func.value, ast.Call) and ctx.qualified_name(call.func.value.func) == "builtins.super":
        return
    known = isinstance(receiver, Tensor) or ctx.is_module(receiver)
    if not known and not isinstance(receiver, Unknown):
        return
    if isinstance(receiver, Instance) and not known:
        return
    message = "`.cuda()` raises where there is no NVIDIA GPU; torchax tensors live on the `jax` device"
    yield ctx.finding(call, message, _to_jax(call, ctx, known=known))


def _to_jax(call: ast.Call, ctx: Context, *, known: bool) -> Fix | None:
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return None
    import libcst as cst  # a tenth of a second that only a rewrite should cost

    node = ctx.libcst(call)
    assert isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
    kept = []
    applicability = Applicability.SAFE if known else Applicability.UNSAFE
    for position, argument in enumerate(node.args):
        name = argument.keyword.value if argument.keyword is not None else _PARAMETERS[position]
        if name == "device":
            constant = isinstance(argument.value, cst.Integer | cst.SimpleString | cst.Name) and not (
                isinstance(argument.value, cst.Name) and argument.value.value != "None"
            )
            applicability = applicability if constant else Applicability.UNSAFE
        else:
            equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
            kept.append(argument.with_changes(keyword=cst.Name(name), equal=equal))
    arguments = [cst.Arg(cst.SimpleString('"jax"')), *kept]
    new = node.with_changes(func=node.func.with_changes(attr=cst.Name("to")), args=arguments)
    return ctx.fix(
        'move to the `jax` device with `.to("jax")`',
        ctx.replace_libcst(call, new),
        applicability=applicability,
    )
