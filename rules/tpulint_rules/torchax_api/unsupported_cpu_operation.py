"""Operation on CPU tensors that fails in the torchax environment.

## What it does

The rule reports the following operations, which raise or give different results on CPU tensors inside the
torchax environment:

- `torch.where` with a Python scalar;
- `torch.quantile` and `nanquantile` with a Python scalar as the quantile;
- `torch.cov`, `corrcoef`, `combinations`, `one_hot` and `cosine_similarity`;
- `pad_sequence` of CPU tensors, as in functions that create batches for a `DataLoader`.

The rule reports an operation only if its tensors are known to be on the CPU, or if it is in a function that
creates batches.
The rule checks programs that put tensors on a CUDA or torchax device or enter the torchax environment, and
traced code.
Traced code is code that JAX traces to compile it, such as a model's `forward`.
In programs that train, or that import the runtime torchax-compat, the rule reports only operations in
functions that the program jits itself.

## Why it matters on TPU

Inside the torchax environment, torchax replaces every tensor that is created, including the tensors that
PyTorch creates internally.
For example, the scalar in `torch.where(mask, x, 0.0)` becomes a device tensor, which `torch.where` then
combines with the CPU tensor `x`.

- `torch.where`, `cov`, `corrcoef`, `combinations` and `one_hot` raise `AssertionError: Expect a Tensor or a
  View but got <class 'torch.Tensor'>; usually this means there is a mixed math between XLATensor and
  torch.Tensor`.
- `quantile` raises `RuntimeError: quantile() q tensor must be on the same device as the input tensor`.
- `cosine_similarity` raises `AttributeError: 'Tensor' object has no attribute '_env'`.
- `pad_sequence` creates its result on the device and copies nothing into it.
  The result contains only zeros, and torchax raises no error.

Data sets and batches are created on the CPU, so the program fails before its first step.

These results were measured with torch 2.13.0, torchax 0.0.14.dev20261026 and jax 0.10.2.
Of 93 calls of torch functions on CPU tensors that were tried inside the torchax environment, 82 gave correct
results.

## Fix safety

The fix is safe: it replaces the scalar with a tensor.

- In `torch.where`, the fix replaces the scalar with a zero-dimensional tensor, which takes part in type
  promotion as a Python scalar does.
- In `quantile`, the fix replaces the scalar with a tensor of the required dtype.

## Without a fix

For operations without a fix, use one of these remedies:

- Call `torchax_compat.enable()` instead of `torchax.enable_globally()`: with this runtime, all reported
  operations work on CPU tensors.
  The fix of TPU611 (`backward-on-torchax`) adds this runtime to programs that train.
- Move the tensor to the device before the operation: `torch.cov(x.to("jax")).cpu()`.
- Leave the torchax environment while you prepare data: `with torchax.disable_temporarily():`.
- Pad sequences by hand: `torch.stack([F.pad(s, (0, longest - len(s))) for s in sequences])`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule, Several, Static, Tensor
from tpulint.rules_api.syntax import dotted

rule = Rule(
    "TPU904",
    "operation on CPU tensors that fails in the torchax environment",
    module=__name__,
    former=("broken-on-host",),
    fix=Applicability.SAFE,
)

_HANDLED = "operations on CPU tensors"
#: Operations that fail on the host: how many tensors they take, numbers among them.
_OPERATIONS = {
    "torch.where": 3,
    "torch.quantile": 2,
    "torch.nanquantile": 2,
    "torch.cov": 1,
    "torch.corrcoef": 1,
    "torch.combinations": 1,
    "torch.nn.functional.one_hot": 1,
    "torch.nn.functional.cosine_similarity": 2,
    "torch.cosine_similarity": 2,
}
#: Those of them that fail where numbers are given, and only there.
_OF_NUMBERS = frozenset({"torch.where", "torch.quantile", "torch.nanquantile"})
#: Those of them that tensors have for methods.
_METHODS = frozenset({"where", "quantile", "nanquantile", "cov", "corrcoef"})


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in _OPERATIONS))
def operation(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name, operands = ctx.names.qualified(call.func), list(call.args)
    if name is None and isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS:
        name = f"torch.{call.func.attr}"
        # `x.where(mask, y)` is `torch.where(mask, x, y)`.
        operands.insert(1 if name == "torch.where" else 0, call.func.value)
    if name not in _OPERATIONS or len(operands) < _OPERATIONS[name] or not _may_be_in_environment(call, ctx):
        return
    operands = operands[: _OPERATIONS[name]]
    numbers = [operand for operand in operands if isinstance(ctx.types.of(operand), Static)]
    if bool(numbers) != (name in _OF_NUMBERS):
        return
    if not all(_is_on_host(operand, ctx) for operand in operands if operand not in numbers):
        return
    if not ctx.program.runtime_handles(_HANDLED, name):
        short = name.rpartition(".")[2]
        message = f"in the torchax environment, `{short}` of CPU tensors raises"
        message += (
            " if an argument is a Python scalar" if numbers else "; move the tensors to the device first"
        )
        yield ctx.finding(call, message, _as_tensors(numbers, operands[0], name, ctx) if numbers else None)


@rule.on(ast.Call, named={"pad_sequence"})
def padded(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "torch.nn.utils.rnn.pad_sequence" or not call.args:
        return
    if ctx.trace.path is not None or not ctx.program.serves_device:
        return
    kind = ctx.types.of(call.args[0])
    is_host = isinstance(kind, Several) and isinstance(kind.element, Tensor) and kind.element.is_host
    if (is_host or _collates(ctx)) and not ctx.program.runtime_handles(
        _HANDLED, "torch.nn.utils.rnn.pad_sequence"
    ):
        yield ctx.finding(
            call,
            "`pad_sequence` of CPU tensors returns only zeros under torchax; pad with `F.pad` instead",
        )


def _collates(ctx: Context) -> bool:
    """Whether the function is the `collate_fn` of a data loader."""
    name = ctx.scope.function.name if ctx.scope.function is not None else ""
    handed = (
        dotted(word.value) or ""
        for call, _ in ctx.calls("DataLoader")
        for word in call.keywords
        if word.arg == "collate_fn"
    )
    return bool(name) and ("collate" in name or any(one.rpartition(".")[2] == name for one in handed))


def _may_be_in_environment(call: ast.Call, ctx: Context) -> bool:
    """Whether the code may run in the torchax environment."""
    return (ctx.trace.path is not None or ctx.program.serves_device) and not ctx.devices.only_with_cuda(call)


def _is_on_host(node: ast.expr, ctx: Context) -> bool:
    """Whether an operand is a CPU tensor with dimensions."""
    kind = ctx.types.of(node)
    return isinstance(kind, Tensor) and kind.is_host and not kind.scalar


def _as_tensors(numbers: list[ast.expr], first: ast.expr, name: str, ctx: Context) -> Fix | None:
    imports, dtype = ctx.rewrite.imports("import torch"), ""
    if name != "torch.where":
        if not isinstance(first, ast.Name | ast.Attribute):
            return None
        dtype = f", dtype={ctx.text(first)}.dtype"
    if imports is None:
        return None
    edits = [ctx.rewrite.replace(number, f"torch.tensor({ctx.text(number)}{dtype})") for number in numbers]
    return ctx.rewrite.fix("replace the Python scalar with `torch.tensor(...)`", *edits, *imports)
