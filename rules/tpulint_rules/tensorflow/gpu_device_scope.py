"""Code that TensorFlow is to run on a GPU.

## What it does

Reports `with tf.device(...)` with a GPU, such as `"/GPU:0"`.
If the device is a name, an attribute or a configuration, it is followed through the file.

## Why it matters on TPU

A TPU host has no GPU.
TensorFlow raises no error: it runs the code on the CPU.

This was measured with tensorflow-cpu 2.21.0.

## Fix safety

The fix removes the `with`, and keeps the code in it.
Code under a `TPUStrategy` then runs on the TPU.
The fix is unsafe, because code outside of a strategy still runs on the CPU.

The rule has no fix with the setting `keep-gpu`.

## Without a fix

If the device is computed, remove the `with` by hand, and let the strategy place the code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tensorflow_api import is_gpu_device
from tpulint.rules_api import Applicability, Context, Finding, Rule

rule = Rule(
    "TF102",
    "code that TensorFlow is to run on a GPU",
    module=__name__,
    fix=Applicability.UNSAFE,
)


@rule.on(ast.Call, named={"device"})
def device(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "tensorflow.device" or len(call.args) != 1:
        return
    names = sorted(text for text in ctx.program.texts(call.args[0]) if text and is_gpu_device(text))
    if not names and not _is_formatted(call.args[0]):
        return
    item, statement, fix = ctx.parent(call), ctx.statement(call), None
    constant = isinstance(call.args[0], ast.Constant)
    if isinstance(item, ast.withitem) and isinstance(statement, ast.With) and constant:
        edits = None if ctx.program.keeps_cuda else ctx.rewrite.unwrap(statement, item)
        if edits is not None:
            title = "remove the device, and keep the code"
            fix = ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)
    verb = "is" if constant else "may be"
    name = names[0] if names else ctx.text(call.args[0])
    message = f"the device {verb} `{name}`, which a TPU host does not have, so the code runs on the CPU"
    yield ctx.finding(call, message, fix)


def _is_formatted(node: ast.expr) -> bool:
    """Whether the device is a GPU whose number is put in, as in `f"/GPU:{number}"`."""
    match node:
        case ast.JoinedStr(values=[ast.Constant(value=str() as text), *_]):
            return is_gpu_device(f"{text}0")
        case ast.BinOp(op=ast.Add(), left=ast.Constant(value=str() as text)):
            return is_gpu_device(f"{text}0")
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str() as text)):
            return is_gpu_device(text.replace("%d", "0").replace("%s", "0"))
        case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant(value=str() as text))):
            return is_gpu_device(text.replace("{}", "0"))
    return False
