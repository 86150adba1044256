"""Option of transformers' `TrainingArguments` that needs an NVIDIA GPU.

## What it does

Reports these arguments of `TrainingArguments` and `Seq2SeqTrainingArguments`:

- `fp16=True`, `tf32=True` and `ddp_backend="nccl"`;
- `optim` with an optimizer of bitsandbytes or apex, such as `"adamw_bnb_8bit"` and `"paged_adamw_32bit"`;
- `deepspeed` and `fsdp`.

Calls with `use_cpu=True` are not reported.

## Why it matters on TPU

These errors were measured with transformers 5.24.0 and accelerate 1.15.0 in the torchax environment:

- `fp16=True` raises `ValueError: fp16 mixed precision requires a device in (...)`.
- `tf32=True` raises `ValueError: --tf32 requires Ampere or a newer GPU arch`.
- `ddp_backend="nccl"` raises `ValueError: Default process group has not been initialized`.
- `optim="adamw_bnb_8bit"` raises `ImportError`, because bitsandbytes needs CUDA.
- `deepspeed={...}` raises `PackageNotFoundError`, because DeepSpeed needs CUDA.
- `fsdp="full_shard"` raises `ValueError: Using fsdp only works in distributed training`.

## Fix safety

The fix is unsafe, because it changes how the program computes on a GPU.

- `fp16=True` becomes `bf16=True`.
- `tf32=True` and `ddp_backend="nccl"` are removed.
- Optimizers of bitsandbytes and apex that are forms of AdamW become `"adamw_torch"`.

With `--keep-gpu`, there is no fix.

## Without a fix

- Remove `deepspeed` and `fsdp`: the program then trains on one chip.
- Replace other optimizers with one that torch has.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.training import TRAINING_ARGUMENTS
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule

rule = Rule(
    "FRW101",
    "option of transformers' `TrainingArguments` that needs an NVIDIA GPU",
    module=__name__,
    fix=Applicability.UNSAFE,
)

_OPTIONS = frozenset({"fp16", "tf32", "ddp_backend", "optim", "deepspeed", "fsdp"})
_ADAMW = frozenset(
    {
        *("adamw_bnb_8bit", "adamw_8bit", "adamw_apex_fused", "paged_adamw", "paged_adamw_32bit"),
        *("paged_adamw_8bit",),
    }
)
_OTHERS = frozenset(
    {
        *(
            "ademamix_8bit",
            "lion_8bit",
            "paged_ademamix",
            "paged_ademamix_8bit",
            "paged_lion",
            "paged_lion_8bit",
        ),
        *("rmsprop_bnb", "rmsprop_bnb_8bit", "rmsprop_bnb_32bit"),
    }
)


@rule.on(ast.Call, passing=_OPTIONS)
def option(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) not in TRAINING_ARGUMENTS or ctx.devices.only_with_cuda(call):
        return
    given = {word.arg: word for word in call.keywords}
    if _value(given.get("use_cpu")) is True or _value(given.get("no_cuda")) is True:
        return
    for word in call.keywords:
        found = _found(word, ctx)
        if found is not None:
            message, fix = found
            yield ctx.finding(word.value, message, None if ctx.program.keeps_cuda else fix)


def _found(word: ast.keyword, ctx: Context) -> tuple[str, Fix | None] | None:
    """What is wrong with an argument, and its fix."""
    value, name = _value(word), word.arg or ""
    rewrite = ctx.rewrite
    if name == "fp16" and value is True:
        changed = rewrite.fix(
            "replace `fp16` with `bf16`", rewrite.rename(word, "bf16"), applicability=Applicability.UNSAFE
        )
        return "`fp16=True` raises `ValueError` on TPU, which has bfloat16", changed
    if (name == "tf32" and value is True) or (name == "ddp_backend" and value == "nccl"):
        changed = rewrite.fix(
            f"remove `{name}`", rewrite.remove_argument(word), applicability=Applicability.UNSAFE
        )
        return f"`{name}={ctx.text(word.value)}` raises `ValueError` without an NVIDIA GPU", changed
    if name == "optim" and value in _ADAMW:
        other = rewrite.quoted("adamw_torch", word.value)
        changed = rewrite.fix(
            "use AdamW of torch", rewrite.replace(word.value, other), applicability=Applicability.UNSAFE
        )
        return f"the optimizer `{value}` needs CUDA", changed
    if name == "optim" and value in _OTHERS:
        return f"the optimizer `{value}` needs CUDA; use one of `torch.optim`", None
    if name in ("deepspeed", "fsdp") and not (isinstance(word.value, ast.Constant) and not value):
        return f"`{name}` starts processes for several GPUs, and raises on TPU; remove it", None
    return None


def _value(word: ast.keyword | None) -> object:
    """The constant that an argument is, if it is one."""
    return word.value.value if word is not None and isinstance(word.value, ast.Constant) else None
