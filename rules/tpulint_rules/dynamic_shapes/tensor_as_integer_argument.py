"""Tensor where an integer or another scalar is required, in traced code.

## What it does

Reports a tensor in the following positions in traced code.
Traced code is code that JAX traces to compile it, such as a model's `forward`.

- a bound of a slice: `x[:n]`
- an index into a list, a tuple or an `nn.ModuleList`
- an argument of `range`
- a size, an index or another scalar argument of an operation: `x.narrow(0, n, 2)`, `x.view(n, -1)`,
  `torch.topk(x, n)`, `torch.full_like(x, n)`

A tensor may index a tensor, so `x[n]` and `x.index_select(0, n)` are not reported.
If the scalar comes from `.item()` or `int()`, TPU301 (`item-in-traced-code`) or TPU302
(`python-scalar-of-tensor`) reports the call of `.item()` or `int()` instead.

## Why it matters on TPU

Python and torch read the value of the tensor through `__index__`, but a tensor has no value while JAX traces
the code.

- In jitted code, such a read raises `jax.errors.ConcretizationTypeError: Abstract tracer value encountered
  where concrete value is expected` or `TracerIntegerConversionError: The __index__() method was called on
  traced array`.
- If a tensor is a bound of a slice, code that is not jitted raises, too, when it uses this slice:
  `AssertionError: torchax Tensors can only do math within the torchax environment`.

Passing the size as an integer in a static argument avoids the error, but JAX then compiles the function again
for each new size.

## Fix safety

The fix is unsafe:

- In reads and writes, the fix replaces a slice of fixed length, such as `x[:, n : n + 4]`, with the indices
  `torch.arange(4) + n`.
  If the slice ends beyond the tensor, the result is wrong: Python shortens the slice, but the fixed code uses
  an index out of range, which raises no error on TPU.
  A read then gives a copy of the elements, not a view.
- If the program writes a scalar to a slice at the start or the end of a tensor, as in `x[:n] = 0`, the fix
  writes through a mask.
  If the bound of the slice (`n`) is negative, the fixed code writes to other elements than the original code.

## Without a fix

- If the length of a slice varies, keep the full length and use the mask `torch.arange(x.shape[0],
  device=x.device) < n`.
- Replace a loop over `range(n)`, where `n` is a tensor, with a call of `jax.lax.fori_loop` through
  `torchax.interop.torch_view`.
- If a tensor selects a module, call all modules and select one of their results with `torch.where`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.numbers import NUMBERS
from tpulint.rules_api import (
    UNKNOWN,
    Applicability,
    Context,
    Finding,
    Fix,
    Instance,
    Kind,
    Rule,
    Several,
    Static,
    Tensor,
)

rule = Rule(
    "TPU404",
    "tensor where an integer or another scalar is required, in traced code",
    module=__name__,
    former=("tensor-as-python-number",),
    fix=Applicability.UNSAFE,
)

_HANDLED = "values of tensors in Python code"
_NO_VALUE = "is a tensor, whose value is not available while JAX traces the code"


@rule.on(ast.Subscript, traced=True, handled=_HANDLED)
def slice_or_list(node: ast.Subscript, ctx: Context) -> Iterator[Finding]:
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for part in parts:
        bounds = (part.lower, part.upper, part.step) if isinstance(part, ast.Slice) else ()
        bound = next((item for item in bounds if item is not None and ctx.types.of(item).is_traced), None)
        if bound is not None:
            fix = _positions(node, parts, part, ctx) or _mask(node, parts, ctx)
            yield ctx.finding(bound, f"this slice bound {_NO_VALUE}", fix)
    base, index = ctx.types.of(node.value), ctx.types.of(node.slice)
    if isinstance(base, Several) and index.is_traced and _is_list(base, index):
        yield ctx.finding(node.slice, f"this list index {_NO_VALUE}")


def _is_list(base: Several, index: Kind) -> bool:
    """Whether the indexed collection is a list or tuple, not a dictionary.

    A collection of unknown items may be a dictionary, whose keys have the same inferred type as its values.
    It counts as a list if the index is an integer tensor, or if the items are modules.
    """
    if base.items is not None or isinstance(base.element, Instance):
        return True
    return base.element == UNKNOWN and isinstance(index, Tensor) and index.dtype == "int"


@rule.on(ast.Call, named={"range"}, traced=True, handled=_HANDLED)
def python_range(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) == "builtins.range":
        for argument in call.args:
            if ctx.types.of(argument).is_traced:
                yield ctx.finding(argument, f"this argument of `range` {_NO_VALUE}")


@rule.on(ast.Call, named=NUMBERS, traced=True)
def operation(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    qualified = ctx.names.qualified(call.func)
    if qualified is not None:
        if qualified.rpartition(".")[0] not in ("torch", "torch.functional", "torch.nn.functional"):
            return
        name, operands = qualified, call.args
    elif isinstance(call.func, ast.Attribute) and isinstance(ctx.types.of(call.func.value), Tensor):
        name, operands = f".{call.func.attr}()", [call.func.value, *call.args]
    else:
        return
    last = name.rpartition(".")[2].removesuffix("()")
    start, stop, keywords = NUMBERS[last]
    arguments = [*operands[start:stop], *(k.value for k in call.keywords if k.arg in keywords)]
    numbers = [
        number
        for argument in arguments
        for number in (argument.elts if isinstance(argument, ast.Tuple | ast.List) else [argument])
    ]
    number = next((item for item in numbers if ctx.types.of(item).is_traced), None)
    if number is not None and not ctx.program.runtime_handles("tensors as integer arguments", last):
        yield ctx.finding(number, f"this scalar argument of `{name}` {_NO_VALUE}")


def _positions(node: ast.Subscript, parts: list[ast.expr], part: ast.expr, ctx: Context) -> Fix | None:
    """The fix for `x[start : start + length]` with a known length."""
    match part:
        case ast.Slice(
            lower=ast.expr() as lower, upper=ast.BinOp(op=ast.Add(), left=left, right=length), step=None
        ) if ast.dump(lower) == ast.dump(left):
            pass
        case _:
            return None
    others = [item for item in parts if item is not part]
    imports = ctx.rewrite.imports("import torch")
    if imports is None or not isinstance(node.value, ast.Name | ast.Attribute):
        return None
    if not isinstance(ctx.types.of(length), Static) or not all(isinstance(o, ast.Slice) for o in others):
        return None
    indices = f"torch.arange({ctx.text(length)}, device={ctx.text(node.value)}.device)"
    code = f"{indices} + {ctx.rewrite.operand(lower)}"
    edit = ctx.rewrite.replace(part, code)
    title = "replace the slice with indices from `torch.arange`"
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)


def _mask(node: ast.Subscript, parts: list[ast.expr], ctx: Context) -> Fix | None:
    """The fix for `x[:bound] = scalar` and `x[bound:] = scalar`."""
    outer = ctx.parent(node)
    filled = isinstance(outer, ast.Assign) and node in outer.targets
    imports = ctx.rewrite.imports("import torch")
    if not isinstance(outer, ast.Assign) or not filled or len(parts) != 1 or imports is None:
        return None
    if not isinstance(ctx.types.of(outer.value), Static) or not isinstance(
        node.value, ast.Name | ast.Attribute
    ):
        return None
    match parts[0]:
        case ast.Slice(lower=None, upper=ast.expr() as bound, step=None):
            sign = "<"
        case ast.Slice(lower=ast.expr() as bound, upper=None, step=None):
            sign = ">="
        case _:
            return None
    base = ctx.text(node.value)
    code = f"torch.arange(len({base}), device={base}.device) {sign} {ctx.rewrite.operand(bound)}"
    edit = ctx.rewrite.replace(node.slice, code)
    title = "replace the slice with a boolean mask computed with `torch.arange`"
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
