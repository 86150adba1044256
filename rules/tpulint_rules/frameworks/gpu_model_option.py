"""Option of transformers' `from_pretrained` that needs an NVIDIA GPU.

## What it does

Reports these arguments of `from_pretrained` and `from_config` of the classes of transformers:

- `attn_implementation="flash_attention_2"`, and `"flash_attention_3"`;
- `device_map="cuda"`, `"cuda:0"` and `"auto"`;
- `quantization_config` with a `BitsAndBytesConfig`, `load_in_8bit=True` and `load_in_4bit=True`.

## Why it matters on TPU

These results were measured with transformers 5.24.0 and accelerate 1.15.0 in the torchax environment:

- `attn_implementation="flash_attention_2"` raises `ImportError`.
- `device_map="cuda"` raises `AssertionError: Torch not compiled with CUDA enabled`.
- With `device_map="auto"`, the model stays on the CPU, without an error.
- `BitsAndBytesConfig` raises `ImportError`, because bitsandbytes needs CUDA.

## Fix safety

The fix is unsafe, because the program then computes with other kernels, or on another device.

- `attn_implementation` becomes `"sdpa"`, which is `F.scaled_dot_product_attention`.
- `device_map` becomes `"jax"`, the torchax device.

With `--keep-gpu`, there is no fix.

## Without a fix

Remove the quantization, and load the weights in bfloat16, with `dtype=torch.bfloat16`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Finding, Rule

rule = Rule(
    "FRW102",
    "option of transformers' `from_pretrained` that needs an NVIDIA GPU",
    module=__name__,
    fix=Applicability.UNSAFE,
)

_LOADERS = ("from_pretrained", "from_config")
_OPTIONS = frozenset(
    {"attn_implementation", "device_map", "quantization_config", "load_in_8bit", "load_in_4bit"}
)
_FLASH = re.compile(r"flash_attention_\d")
_DEVICE = re.compile(r"auto|cuda(?::\d+)?")
_BITS_AND_BYTES = "BitsAndBytesConfig"


@rule.on(ast.Call, passing=_OPTIONS)
def option(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func) or ""
    if not (name.startswith("transformers.") and name.endswith(_LOADERS)) or ctx.devices.only_with_cuda(call):
        return
    for word in call.keywords:
        value = word.value.value if isinstance(word.value, ast.Constant) else None
        text = value if isinstance(value, str) else ""
        if word.arg == "attn_implementation" and _FLASH.fullmatch(text):
            message = f"`{text}` needs an NVIDIA GPU, and raises `ImportError`"
            instead = ("use `F.scaled_dot_product_attention`", "sdpa")
        elif word.arg == "device_map" and _DEVICE.fullmatch(text):
            message = f'with `device_map="{text}"`, the model is not put on the TPU'
            instead = ("use the torchax device", "jax")
        elif _is_quantized(word, ctx):
            message = "the quantization of bitsandbytes needs CUDA; load the weights in bfloat16"
            instead = None
        else:
            continue
        fix = None
        if instead is not None and not ctx.program.keeps_cuda:
            title, code = instead
            changed = ctx.rewrite.replace(word.value, ctx.rewrite.quoted(code, word.value))
            fix = ctx.rewrite.fix(title, changed, applicability=Applicability.UNSAFE)
        yield ctx.finding(word.value, message, fix)


def _is_quantized(word: ast.keyword, ctx: Context) -> bool:
    """Whether an argument asks for bitsandbytes."""
    if word.arg in ("load_in_8bit", "load_in_4bit"):
        return isinstance(word.value, ast.Constant) and word.value.value is True
    if word.arg != "quantization_config":
        return False
    if isinstance(word.value, ast.Name):
        return any(_makes_config(value, ctx) for value in ctx.names.assigned_values(word.value))
    return _makes_config(word.value, ctx)


def _makes_config(value: ast.expr, ctx: Context) -> bool:
    if not isinstance(value, ast.Call):
        return False
    return (ctx.names.qualified(value.func) or "").rpartition(".")[2] == _BITS_AND_BYTES
