"""Operator that torchax computes incorrectly.

## What it does

Traced code is code that JAX traces to compile it, such as a model's `forward`.
The rule reports the following functions in traced code.
In other code, the rule reports these functions if their arguments are tensors on a CUDA or torchax device:

- `avg_pool2d`, `avg_pool3d` and `lp_pool2d` with `ceil_mode=True`;
- `torch.stft` with a `win_length` that is known to be shorter than `n_fft`;
- embeddings with `max_norm`;
- `multilabel_margin_loss`;
- transposed convolutions with `groups`, if each group has several channels.

In programs that move tensors to a CUDA or torchax device, the rule also reports the modules that call these
functions, such as `nn.AvgPool2d(2, ceil_mode=True)`.

## Why it matters on TPU

On torchax, the reported functions give wrong results without an error, whether or not the code is jitted:

- With `ceil_mode=True`, pooling windows at the border extend beyond the input.
  PyTorch divides by the number of elements that lie inside the input, but torchax divides by the size of the
  whole window.
  For an input of ones, the last row and the last column of the result of torchax are 0.5.
- In `torch.stft`, PyTorch centers a window that is shorter than `n_fft`.
  torchax does not center the window, so the spectrum is wrong.
- If the norm of a row of an embedding is larger than `max_norm`, PyTorch rescales the row, but torchax does
  not.
  In jitted code, `F.embedding` with `max_norm` raises `ConcretizationTypeError: Abstract tracer value
  encountered where concrete value is expected`.
- In `multilabel_margin_loss`, PyTorch ignores the targets after the first negative target, but torchax does
  not ignore them.
- In a transposed convolution with `groups`, such as `nn.ConvTranspose2d(6, 4, 3, groups=2)`, torchax computes
  each group with the weights of other groups, too.
  A transposed convolution with one channel per group (`groups=in_channels`) is correct.
  Convolutions that are not transposed are correct.

These results were measured with torch 2.13.0, torchax 0.0.14.dev20261026 and jax 0.10.2.

## Fix safety

The following fixes are safe:

- For pooling without padding, the fix adds `count_include_pad=False`.
  torchax then divides by the number of elements that lie inside the input.
- For `stft`, the fix pads the window with zeros on both sides, as PyTorch does internally.

The fix for transposed convolutions is unsafe, because it enters the torchax environment with the
runtime torchax-compat, which changes parts of torch and torchax for the whole program.
The runtime computes transposed convolutions correctly.
The rule therefore does not report transposed convolutions in programs that import the runtime.

## Without a fix

Create the embedding without `max_norm`, and rescale the rows that the lookup returns.
Unlike with `max_norm`, the weight of the embedding itself is not changed:

```python
rows = table(ids)
rows = rows * (max_norm / rows.norm(dim=-1, keepdim=True)).clamp(max=1)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.runtime import DISTRIBUTION
from tpulint.rules_api import Applicability, Context, Finding, Rule, Static, Tensor
from tpulint.rules_api.syntax import arguments_by_name

rule = Rule("TPU633", "operator that torchax computes incorrectly", module=__name__, fix=Applicability.SAFE)

_F = "torch.nn.functional"
_POOLING = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")
_POWER = ("norm_type", "kernel_size", "stride", "ceil_mode")
#: What pools with windows over the border, with the names of its arguments by position.
_POOLS = {
    f"{_F}.avg_pool2d": ("input", *_POOLING),
    f"{_F}.avg_pool3d": ("input", *_POOLING),
    f"{_F}.lp_pool2d": ("input", *_POWER),
    "torch.nn.AvgPool2d": _POOLING,
    "torch.nn.AvgPool3d": _POOLING,
    "torch.nn.LPPool2d": _POWER,
}
_LOOKUPS = {
    f"{_F}.embedding": ("input", "weight", "padding_idx", "max_norm"),
    "torch.nn.Embedding": ("num_embeddings", "embedding_dim", "padding_idx", "max_norm"),
}
_LOSSES = frozenset({f"{_F}.multilabel_margin_loss", "torch.nn.MultiLabelMarginLoss"})
_TRANSPOSED = ("stride", "padding", "output_padding", "groups")
_CONVOLUTIONS = {f"{_F}.conv_transpose{n}d": ("input", "weight", "bias", *_TRANSPOSED) for n in (1, 2, 3)} | {
    f"torch.nn.ConvTranspose{n}d": ("in_channels", "out_channels", "kernel_size", *_TRANSPOSED)
    for n in (1, 2, 3)
}
_STFT = ("input", "n_fft", "hop_length", "win_length", "window")


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in _POOLS))
def pooled(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func) or ""
    given = arguments_by_name(call, _POOLS.get(name, ()))
    if not _is(given.get("ceil_mode"), value=True) or _is(given.get("count_include_pad"), value=False):
        return
    if not _is_computed(name, given.get("input"), ctx):
        return
    fix = None
    padding = given.get("padding")
    is_plain = padding is None or (isinstance(padding, ast.Constant) and padding.value == 0)
    if "lp" not in name.lower() and is_plain and "count_include_pad" not in given:
        edit = ctx.rewrite.add_argument(call, "count_include_pad=False")
        title = "add `count_include_pad=False`, to divide by the number of elements that lie inside the input"
        fix = ctx.rewrite.fix(title, edit)
    message = "with `ceil_mode=True` is wrong at the border, where it divides by the whole window size"
    yield ctx.finding(call, f"on torchax, `{name}` {message}", fix)


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in _LOOKUPS))
def looked_up(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func) or ""
    given = arguments_by_name(call, _LOOKUPS.get(name, ()))
    longest = given.get("max_norm")
    if isinstance(longest, ast.Constant) and longest.value and _is_computed(name, given.get("input"), ctx):
        message = "does not rescale rows whose norm is larger than `max_norm`"
        yield ctx.finding(call, f"on torchax, `{name}` {message}")


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in _LOSSES))
def lost(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func) or ""
    if name in _LOSSES and _is_computed(name, call.args[0] if call.args else None, ctx):
        message = "also counts entries after the first negative target as targets, without an error"
        yield ctx.finding(call, f"on torchax, `{name}` {message}")


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in _CONVOLUTIONS))
def grouped(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func) or ""
    given = arguments_by_name(call, _CONVOLUTIONS.get(name, ()))
    groups, channels = given.get("groups"), given.get("in_channels")
    if groups is None or _number(groups, ctx) < 2:
        return
    is_depthwise = channels is not None and _number(channels, ctx) in (0, _number(groups, ctx))
    if is_depthwise or not _is_computed(name, given.get("input"), ctx):
        return
    if ctx.program.runtime_handles("transposed convolutions", name):
        return
    title = f"add the runtime {DISTRIBUTION}, which computes transposed convolutions correctly"
    message = "with `groups` mixes the weights of different groups, without an error"
    yield ctx.finding(call, f"on torchax, `{name}` {message}", ctx.rewrite.runtime_fix(title))


@rule.on(ast.Call, named={"stft"})
def windowed(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name is None and isinstance(call.func, ast.Attribute):
        given = arguments_by_name(call, _STFT[1:]) | {"input": call.func.value}
    elif name == "torch.stft":
        given = arguments_by_name(call, _STFT)
    else:
        return
    size, width = _number(given.get("n_fft"), ctx), _number(given.get("win_length"), ctx)
    if not size or not width or width >= size or not _is_computed("torch.stft", given.get("input"), ctx):
        return
    fix, window = None, given.get("window")
    if window is not None and not _is(window, value=None):
        imports = ctx.rewrite.imports("import torch")
        before = (size - width) // 2
        padded = f"torch.nn.functional.pad({ctx.text(window)}, ({before}, {size - width - before}))"
        edits = ctx.rewrite.replace(window, padded), ctx.rewrite.replace(given["win_length"], str(size))
        title = "pad the window with zeros to the length `n_fft`"
        fix = ctx.rewrite.fix(title, *edits, *imports) if imports is not None else None
    message = "torchax does not center a `stft` window shorter than `n_fft`, so the spectrum is wrong"
    yield ctx.finding(call, message, fix)


def _is(node: ast.expr | None, *, value: object) -> bool:
    """True if the argument is the constant `value`."""
    return isinstance(node, ast.Constant) and node.value is value


def _number(node: ast.expr | None, ctx: Context) -> int:
    """The integer that an argument is known to be, or 0."""
    kind = ctx.types.of(node) if node is not None else None
    return kind.value if isinstance(kind, Static) and isinstance(kind.value, int) else 0


def _is_computed(name: str, given: ast.expr | None, ctx: Context) -> bool:
    """Whether the operation may run on the device (in traced code, or a program with device tensors)."""
    if ctx.devices.only_with_cuda(given or ctx.tree):
        return False
    if name.rpartition(".")[2][:1].isupper():
        return ctx.program.serves_device
    kind = ctx.types.of(given) if given is not None else None
    if isinstance(kind, Tensor) and kind.is_host:
        return False
    return ctx.trace.path is not None or (ctx.program.serves_device and kind is not None and kind.is_tensor)
