"""Kernel library for NVIDIA GPUs.

## What it does

Reports:

- the first import, in a file, of a package whose kernels run only on NVIDIA GPUs: flash_attn, xformers,
  triton, apex, bitsandbytes, transformer_engine and others;
- calls of `flash_attn_func` and `memory_efficient_attention`;
- calls of `torch.utils.cpp_extension` that build CUDA kernels;
- uses of `flex_attention`, in a program that does not import the runtime torchax-compat.

tpulint does not report a package that a file imports only in a `try`, under a condition or inside a function.
If a file imports a package in one of these ways, calls of functions of this package are not reported, either.

## Why it matters on TPU

- Packages of GPU kernels are not available on a TPU host: `ModuleNotFoundError: No module named
  'flash_attn'`.
- `CUDAExtension` and `load_inline` raise `OSError: CUDA_HOME environment variable is not set`.
- `flex_attention` raises `ValueError: FlexAttention is only supported on CUDA, CPU, HPU, or MPS devices`.

On torchax, `F.scaled_dot_product_attention` computes the same attention as these packages, but it stores the
whole matrix of attention scores in memory.
For long sequences, replace `F.scaled_dot_product_attention` with a kernel such as JAX's splash attention.
Register this kernel with `torchax.default_env().override_op_definition`.

## Fix safety

The fix is unsafe, because results and memory use may differ from those of the original kernels.
The original kernels need a GPU, so they were not run in the tests of the fix.
Instead, the results of the fixed code were compared with those of the same computation, written in plain
torch.

- `flash_attn_func` and `memory_efficient_attention` become `F.scaled_dot_product_attention`.
  `F.scaled_dot_product_attention` expects the dimension of the heads before the sequence dimension, so the
  fix transposes the arguments and the result.
- `flash_attn_func` with `causal` aligns the mask at the end of the keys, but `F.scaled_dot_product_attention`
  with `is_causal` aligns it at the beginning.
  With `causal`, the results are therefore the same only if there are as many queries as keys.
- `memory_efficient_attention` also accepts tensors with three dimensions, but the fixed code accepts only
  tensors with four.
- `FusedLayerNorm` of apex becomes `torch.nn.LayerNorm`.
- An 8-bit optimizer of bitsandbytes becomes the corresponding optimizer of torch, which keeps its state in 32
  bits. The optimizer of torch needs more memory than the 8-bit optimizer, and its results differ.
- For `flex_attention`, the fix adds the runtime torchax-compat, which computes it in plain torch
  operations, with `score_mod`, `block_mask` and gradients.
  The runtime stores the whole matrix of attention scores in memory, and skips no blocks.

## Without a fix

- If a call of an attention function has arguments that the fix does not know, such as a tensor as
  `attn_bias`, call `F.scaled_dot_product_attention` yourself.
  In the query, key and value tensors, the dimension of the heads must come before the sequence dimension.
- `flash_attn_qkvpacked_func(qkv)` takes one packed tensor. Split this tensor with `q, k, v = qkv.unbind(2)`,
  and then replace the call with `F.scaled_dot_product_attention`.
- `flash_attn_varlen_func` takes concatenated sequences of different lengths.
  Instead, pad the sequences to one length, which a TPU needs anyway, and pass a mask to
  `F.scaled_dot_product_attention`.
- Replace `FusedAdam(...)` of apex with `torch.optim.AdamW(..., weight_decay=0)`. If the program passes
  `weight_decay` to `FusedAdam`, pass the same value to `AdamW`.
- Replace your own GPU kernel with torch operations, which XLA fuses.
  Or write the kernel in Pallas, and call the Pallas kernel with `torchax.interop.call_jax`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.gpu_kernels import (
    ATTENTION,
    BUILDERS,
    CAUSAL_MASKS,
    PACKAGES,
    SAME_IN_TORCH,
    Attention,
)
from tpulint.knowledge.runtime import DISTRIBUTION
from tpulint.rules_api import Applicability, Context, Effort, Finding, Fix, Rule

rule = Rule(
    "TPU803",
    "kernel library for NVIDIA GPUs",
    module=__name__,
    fix=Applicability.UNSAFE,
    effort=Effort.DAYS,
)

_FLEX = "torch.nn.attention.flex_attention.flex_attention"
_SAME = frozenset(name.rpartition(".")[2] for name in SAME_IN_TORCH)


def _last(names: frozenset[str] | dict[str, Attention]) -> frozenset[str]:
    return frozenset(name.rpartition(".")[2] for name in names)


@rule.on(ast.Import)
def imported(node: ast.Import, ctx: Context) -> Iterator[Finding]:
    for package in dict.fromkeys(alias.name.partition(".")[0] for alias in node.names):
        if package in PACKAGES and ctx.names.first_import(package) is node:
            yield ctx.finding(node, _message(package))


@rule.on(ast.ImportFrom)
def imported_from(node: ast.ImportFrom, ctx: Context) -> Iterator[Finding]:
    package = (node.module or "").partition(".")[0]
    if node.level or package not in PACKAGES or ctx.names.first_import(package) is None:
        return
    same = {alias: SAME_IN_TORCH.get(f"{node.module}.{alias.name}") for alias in node.names}
    for alias, instead in same.items():
        if instead is not None and ctx.program.is_import_time and not ctx.names.is_optional_import(node):
            edit = ctx.rewrite.rename_import(node, alias, instead)
            title = f"replace `{node.module}.{alias.name}` with `{instead}`"
            fix = ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)
            yield ctx.finding(node, f"`{alias.name}` of `{package}` runs only on NVIDIA GPUs", fix)
    if ctx.names.first_import(package) is node and not all(same.values()):
        yield ctx.finding(node, _message(package))


@rule.on(ast.Attribute, named=_SAME)
def same_in_torch(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(node)
    if name not in SAME_IN_TORCH or not _is_needed(name, ctx):
        return
    instead = SAME_IN_TORCH[name]
    imports = ctx.rewrite.imports("import torch")
    fix = None
    if imports is not None:
        edit = ctx.rewrite.replace(node, instead)
        title = f"replace `{name}` with `{instead}`"
        fix = ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
    yield ctx.finding(node, f"`{name}` runs only on NVIDIA GPUs", fix)


@rule.on(ast.Call, named=_last(ATTENTION))
def attention(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name in ATTENTION and _is_needed(name, ctx) and not ctx.devices.only_with_cuda(call):
        yield ctx.finding(call, f"`{name}` runs only on NVIDIA GPUs", _attention(call, ATTENTION[name], ctx))


@rule.on(ast.Call, named=_last(BUILDERS))
def built(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in BUILDERS or ctx.devices.only_with_cuda(call) or ctx.devices.is_caught(call):
        return
    given = {word.arg: word.value for word in call.keywords}
    sources = [*call.args[1:2], *(given[word] for word in ("sources",) if word in given)]
    written_in_cuda = name.endswith(".load") and any(_names_cuda_source(node) for node in sources)
    if name.endswith("Extension") or "cuda_sources" in given or written_in_cuda:
        yield ctx.finding(call, f"`{name}` builds CUDA kernels, which do not run on TPU")


@rule.on(ast.ImportFrom, where=lambda node: node.module == _FLEX.rpartition(".")[0])
def flex_imported(node: ast.ImportFrom, ctx: Context) -> Iterator[Finding]:
    for alias in node.names:
        calls = [call for call, _ in ctx.calls(alias.asname or alias.name)]
        if alias.name == _FLEX.rpartition(".")[2] and not (calls and all(map(ctx.devices.is_caught, calls))):
            yield from _flex(node, ctx)


@rule.on(ast.Attribute, named={_FLEX.rpartition(".")[2]})
def flex(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    if (
        isinstance(node.ctx, ast.Load)
        and ctx.names.qualified(node) == _FLEX
        and not ctx.devices.is_caught(node)
    ):
        yield from _flex(node, ctx)


def _flex(node: ast.stmt | ast.expr, ctx: Context) -> Iterator[Finding]:
    if not ctx.devices.only_with_cuda(node) and not ctx.program.runtime_handles("`flex_attention`"):
        title = f"add the runtime {DISTRIBUTION}, which computes `flex_attention` in torch operations"
        message = "`flex_attention` raises for torchax tensors"
        yield ctx.finding(node, message, ctx.rewrite.runtime_fix(title))


def _message(package: str) -> str:
    return f"`{package}` needs an NVIDIA GPU and is not available on a TPU host; {PACKAGES[package]}"


def _is_needed(name: str, ctx: Context) -> bool:
    """Whether this file imports the package unconditionally, at its top."""
    return ctx.names.first_import(name.partition(".")[0]) is not None


def _names_cuda_source(node: ast.expr) -> bool:
    """Whether a source file has the suffix `.cu`."""
    parts = ast.walk(node)
    return any(
        isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.endswith(".cu")
        for part in parts
    )


def _attention(call: ast.Call, known: Attention, ctx: Context) -> Fix | None:
    """The fix that uses `F.scaled_dot_product_attention`, with heads before the length; else None."""
    names = ("q", "k", "v", *known.positional)
    if len(call.args) > len(names) or len(call.args) < 3:
        return None
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    given: dict[str | None, ast.expr] = dict(zip(names, call.args, strict=False))
    given |= {word.arg: word.value for word in call.keywords}
    arguments = [f"{ctx.rewrite.operand(argument)}.transpose(1, 2)" for argument in call.args[:3]]
    for name, value in given.items():
        if name in ("q", "k", "v"):
            continue
        if name == "attn_bias":
            if isinstance(value, ast.Call) and ctx.names.qualified(value.func) in CAUSAL_MASKS:
                arguments.append("is_causal=True")
            elif not (isinstance(value, ast.Constant) and value.value is None):
                return None
        elif name in known.renamed:
            arguments.append(f"{known.renamed[name]}={ctx.text(value)}")
        else:
            return None
    if "causal" in known.renamed:
        arguments.append("enable_gqa=True")  # these kernels take fewer heads of keys than of queries
    imports = ctx.rewrite.imports("import torch")
    if imports is None:
        return None
    text = f"torch.nn.functional.scaled_dot_product_attention({', '.join(arguments)}).transpose(1, 2)"
    title = f"replace `{ctx.text(call.func)}` with `F.scaled_dot_product_attention`"
    return ctx.rewrite.fix(
        title, ctx.rewrite.replace(call, text), *imports, applicability=Applicability.UNSAFE
    )
