"""Switch that chooses among CUDA's kernels.

## What it does

Flags switches of `torch.backends.cudnn` and `torch.backends.cuda`, `torch.set_float32_matmul_precision`,
and the context managers `torch.backends.cuda.sdp_kernel`, `torch.nn.attention.sdpa_kernel` and
`torch.backends.cudnn.flags`.
What a condition lets run only where there is CUDA is left alone.

## Why it matters on TPU

XLA reads none of them.
For `cudnn.benchmark`, `cudnn.deterministic` or the choice of an attention kernel that is harmless.
For the precision of products it is a silent change: on TPU a float32 product is one bfloat16 pass by
default, and code that turns TF32 off or asks for `"highest"` gets that as well.
`torch.backends.cuda.preferred_linalg_library("magma")` raises `RuntimeError: Cannot set preferred backend
to MAGMA if PyTorch has not been compiled with MAGMA`.

## Fix safety

Safe where a switch without effect is removed; an option that it was set by is then read by nothing.
Unsafe where the precision of products is handed to JAX with `jax_default_matmul_precision`, which governs
all products of the program and makes them slower: `"high"` is three bfloat16 passes, `"highest"` six.

## Without a fix

A `with` that does more, whose layout is unusual or whose name is used, has no fix; take the item out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix
from tpulint.knowledge.cuda_api import CHOICES, KERNEL_CONTEXTS, PRECISION, SWITCHES
from tpulint.rule import Context, Rule

rule = Rule("TPU205", "switch that chooses among CUDA's kernels", module=__name__, fix=Applicability.SAFE)

_FLAGS = frozenset(name.rpartition(".")[2] for name in (*SWITCHES, *PRECISION))
#: What only reads, as `not args.fast` does.
_READS = (
    ast.Attribute,
    ast.BoolOp,
    ast.Constant,
    ast.Name,
    ast.UnaryOp,
    ast.expr_context,
    ast.boolop,
    ast.unaryop,
)
_TORCH_TO_JAX = {"highest": "highest", "high": "high", "medium": "default"}


@rule.on(ast.Attribute, named=_FLAGS, where=lambda node: isinstance(node.ctx, ast.Store))
def switch(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    name = ctx.qualified_name(node)
    statement = ctx.statement(node)
    if name is None or not isinstance(statement, ast.Assign) or ctx.only_with_cuda(node):
        return
    alone = len(statement.targets) == 1 and statement.targets[0] is node
    constant = isinstance(statement.value, ast.Constant)
    removable = alone and all(isinstance(node, _READS) for node in ast.walk(statement.value))
    message = f"`{name}` is read by nothing on TPU"
    if name in SWITCHES:
        yield ctx.finding(node, message, _remove(statement, name, ctx) if removable else None)
    elif name in PRECISION:
        full = constant and statement.value.value == PRECISION[name]  # type: ignore[attr-defined]
        if full:
            message = f"`{name}` is read by nothing on TPU, where products are one bfloat16 pass"
            yield ctx.finding(node, message, _precision(statement, "highest", ctx) if alone else None)
        else:
            yield ctx.finding(node, message, _remove(statement, name, ctx) if alone and constant else None)


@rule.on(ast.Call, named={"set_float32_matmul_precision"})
def matmul_precision(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.qualified_name(call.func) != "torch.set_float32_matmul_precision" or ctx.only_with_cuda(call):
        return
    statement = ctx.statement(call)
    fix = None
    if isinstance(statement, ast.Expr) and statement.value is call and len(call.args) == 1:
        asked = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
        wanted = _TORCH_TO_JAX.get(asked) if isinstance(asked, str) else None
        fix = _precision(statement, wanted, ctx) if wanted is not None else None
    message = (
        "`torch.set_float32_matmul_precision` is read by nothing on TPU, where products are one bfloat16 pass"
    )
    yield ctx.finding(call, message, fix)


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in CHOICES))
def choice(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.qualified_name(call.func)
    if name not in CHOICES or ctx.only_with_cuda(call):
        return
    if name.endswith("_library") and not call.args and not call.keywords:
        return  # asks which one it is
    statement = ctx.statement(call)
    alone = isinstance(statement, ast.Expr) and statement.value is call
    yield ctx.finding(call, f"`{name}` {CHOICES[name]}", _remove(statement, name, ctx) if alone else None)


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in KERNEL_CONTEXTS))
def context(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.qualified_name(call.func)
    if name not in KERNEL_CONTEXTS or ctx.only_with_cuda(call):
        return
    message = f"`{name}` chooses among CUDA's kernels, which does nothing on TPU"
    yield ctx.finding(call, message, _unwrap(call, name, ctx))


def _remove(statement: ast.stmt, name: str, ctx: Context) -> Fix:
    return ctx.fix(f"remove `{name.rpartition('.')[2]}`", ctx.delete(statement))


def _precision(statement: ast.stmt, wanted: str, ctx: Context) -> Fix | None:
    imports = ctx.imports("import jax")
    if imports is None:
        return None
    text = f'jax.config.update("jax_default_matmul_precision", "{wanted}")'
    edit = ctx.replace(statement, text)
    return ctx.fix(
        f'use `jax_default_matmul_precision`, "{wanted}"', edit, *imports, applicability=Applicability.UNSAFE
    )


def _unwrap(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    item = ctx.parent(call)
    statement = ctx.statement(call)
    if not isinstance(item, ast.withitem) or not isinstance(statement, ast.With):
        return None
    if any(isinstance(node, ast.Call) for arg in (*call.args, *call.keywords) for node in ast.walk(arg)):
        return None
    edits = ctx.unwrap(statement, item)
    return ctx.fix(f"remove `{name.rpartition('.')[2]}`", *edits) if edits is not None else None
