"""Setting for CUDA kernels or for the precision of matrix products.

## What it does

Reports settings that torch uses only on CUDA:

- assignments to flags of `torch.backends.cudnn` and `torch.backends.cuda`;
- calls of functions of `torch.backends.cuda` that select a kernel or a library;
- calls of `torch.set_float32_matmul_precision`;
- the context managers `torch.backends.cuda.sdp_kernel`, `torch.nn.attention.sdpa_kernel` and
  `torch.backends.cudnn.flags`.

Code that runs only where CUDA is available is not reported.

## Why it matters on TPU

XLA, the compiler for TPU, ignores all of the reported settings:

- Settings such as `cudnn.benchmark`, `cudnn.deterministic` and the choice of an attention kernel are harmless
  on TPU.
- A setting for the precision of matrix products has no effect on TPU, so results on TPU differ from those on
  CUDA, without an error. By default, a TPU rounds the inputs of a float32 matrix product to bfloat16. The TPU
  rounds these inputs even if the program turns TF32 off or requests `"highest"`.
- `torch.backends.cuda.preferred_linalg_library("magma")` raises `RuntimeError: Cannot set preferred backend
  to MAGMA if PyTorch has not been compiled with MAGMA`.

## Fix safety

- The fix is safe if it removes a setting that has no effect on TPU.
  If the program took the value of this setting from a command-line option, the fixed program no longer uses
  that option.
- The fix is unsafe if it sets the precision in JAX, with `jax_default_matmul_precision`. The JAX setting
  applies to all matrix products of the program and makes them slower. With `"high"`, a TPU computes each
  float32 matrix product as three products in bfloat16. With `"highest"`, a TPU computes six products in
  bfloat16.

## Without a fix

- A context manager has no fix in three cases: its arguments contain calls, the layout of the `with` statement
  is unusual, or the program uses the name after `as`.
  Remove the context manager from the `with` statement by hand.
- An assignment has no fix if it has several targets, or if its value is computed.
  Remove the assignment by hand.
- A precision that is not a literal has no fix.
  Call `jax.config.update("jax_default_matmul_precision", precision)` with `"default"`, `"high"` or
  `"highest"`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.cuda_api import CHOICES, KERNEL_CONTEXTS, PRECISION, SWITCHES, Effect
from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule, Severity

rule = Rule(
    "TPU205",
    "setting for CUDA kernels or for the precision of matrix products",
    module=__name__,
    fix=Applicability.SAFE,
    severity=Severity.COSMETIC,
    targets=EVERY_TARGET,
)

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
_PASSES = "has no effect on TPU, where float32 matrix products are computed in bfloat16 by default"
_TORCH_TO_JAX = {"highest": "highest", "high": "high", "medium": "default"}


@rule.on(ast.Attribute, named=_FLAGS, where=lambda node: isinstance(node.ctx, ast.Store))
def switch(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(node)
    statement = ctx.statement(node)
    if name is None or not isinstance(statement, ast.Assign) or ctx.devices.only_with_cuda(node):
        return
    alone = len(statement.targets) == 1 and statement.targets[0] is node
    constant = isinstance(statement.value, ast.Constant)
    removable = alone and all(isinstance(node, _READS) for node in ast.walk(statement.value))
    message = f"`{name}` configures CUDA libraries and has no effect on TPU"
    if name in SWITCHES:
        yield ctx.finding(node, message, _remove(statement, name, ctx) if removable else None)
    elif name in PRECISION:
        full = constant and statement.value.value == PRECISION[name]  # type: ignore[attr-defined]
        if full:
            message = f"`{name}` {_PASSES}"
            fix = _precision(statement, "highest", ctx) if alone else None
            yield ctx.finding(node, message, fix, severity=Severity.BLOCKS)
        else:
            yield ctx.finding(node, message, _remove(statement, name, ctx) if alone and constant else None)


@rule.on(ast.Call, named={"set_float32_matmul_precision"})
def matmul_precision(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "torch.set_float32_matmul_precision" or ctx.devices.only_with_cuda(
        call
    ):
        return
    statement = ctx.statement(call)
    fix, severity = None, Severity.BLOCKS  # the results are less precise than the program asks
    if isinstance(statement, ast.Expr) and statement.value is call and len(call.args) == 1:
        asked = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
        wanted = _TORCH_TO_JAX.get(asked) if isinstance(asked, str) else None
        fix = _precision(statement, wanted, ctx) if wanted is not None else None
        severity = Severity.COSMETIC if wanted == "default" else severity
    name = "torch.set_float32_matmul_precision"
    yield ctx.finding(call, f"`{name}` {_PASSES}", fix, severity=severity)


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in CHOICES))
def choice(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in CHOICES or ctx.devices.only_with_cuda(call):
        return
    if name.endswith("_library") and not call.args and not call.keywords:
        return  # asks which one it is
    statement = ctx.statement(call)
    alone = isinstance(statement, ast.Expr) and statement.value is call
    severity = Severity.BLOCKS if CHOICES[name] is Effect.RAISES else Severity.COSMETIC
    fix = _remove(statement, name, ctx) if alone else None
    yield ctx.finding(call, f"`{name}` {CHOICES[name]}", fix, severity=severity)


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in KERNEL_CONTEXTS))
def context(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in KERNEL_CONTEXTS or ctx.devices.only_with_cuda(call):
        return
    message = f"`{name}` selects CUDA kernels, so it has no effect on TPU"
    yield ctx.finding(call, message, _unwrap(call, name, ctx))


def _remove(statement: ast.stmt, name: str, ctx: Context) -> Fix:
    what = "assignment to" if isinstance(statement, ast.Assign) else "call to"
    return ctx.rewrite.fix(f"remove the {what} `{name}`", ctx.rewrite.delete(statement))


def _precision(statement: ast.stmt, wanted: str, ctx: Context) -> Fix | None:
    imports = ctx.rewrite.imports("import jax")
    if imports is None:
        return None
    text = f'jax.config.update("jax_default_matmul_precision", "{wanted}")'
    edit = ctx.rewrite.replace(statement, text)
    title = f"replace the CUDA setting with `{text}`"
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)


def _unwrap(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    item = ctx.parent(call)
    statement = ctx.statement(call)
    if not isinstance(item, ast.withitem) or not isinstance(statement, ast.With):
        return None
    if any(isinstance(node, ast.Call) for arg in (*call.args, *call.keywords) for node in ast.walk(arg)):
        return None
    edits = ctx.rewrite.unwrap(statement, item)
    title = f"remove the context manager `{name}` and keep the code inside"
    return ctx.rewrite.fix(title, *edits) if edits is not None else None
