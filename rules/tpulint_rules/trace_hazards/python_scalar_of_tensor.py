"""Conversion of a tensor to a Python scalar in traced code.

## What it does

Reports calls in traced code that turn a tensor into a Python value:

- `float(t)`, `int(t)` and `bool(t)` of a tensor;
- functions of `math`, such as `math.sqrt(t)`;
- the built-in functions `max`, `min`, `sorted`, `any` and `all` on tensors;
- `torch.equal` and `torch.is_nonzero` outside of conditions.
  In conditions, TPU303 (`branch-on-tensor`) reports `torch.equal` and `torch.is_nonzero`.

Traced code is code that JAX traces to compile it, such as a model's `forward`.
`len(t)`, `sum(t)` and `abs(t)` work and are not reported.

## Why it matters on TPU

While JAX traces a function, its tensors are tracers: they have a shape and a dtype, but no values.
A conversion to a Python scalar reads the value of a tensor.
In jitted code, this conversion raises `jax.errors.ConcretizationTypeError: Abstract tracer value encountered
where concrete value is expected` (for `bool`, `TracerBoolConversionError`).

## Fix safety

The fix is unsafe, because the dtype of the result may change.
If the Python scalar is used only in arithmetic with tensors, the fix replaces it with a zero-dimensional
tensor.
The fix detaches this tensor, because a Python scalar has no gradient.

- `int(t)` becomes a conversion to `torch.int64`, which truncates as Python does.
- `float(t)` of an integer tensor becomes a conversion to `torch.float32`, which rounds as Python does.
- `math.sqrt(t)` becomes `torch.sqrt(t)`.
  `torch.sqrt` computes in the dtype of the tensor, but `math.sqrt` computes in 64 bits.
- `max(a, b)` of two zero-dimensional tensors becomes `torch.maximum(a, b)`.
  `max([...])` of zero-dimensional tensors becomes `torch.stack([...]).max()`.
  `torch.maximum` and `torch.stack([...]).max()` treat NaN as the largest value.

The fixed code computes the same result if all tensors in the computation have the same dtype.
In a function that converts dtypes, the tensors may have different dtypes, so tpulint offers no fix there.

## Without a fix

Keep the computation in tensor operations, or return the tensor and convert it outside of the traced function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Kind, Rule, Several, Tensor

rule = Rule(
    "TPU302",
    "conversion of a tensor to a Python scalar in traced code",
    module=__name__,
    fix=Applicability.UNSAFE,
)

_HANDLED = "values of tensors in Python code"

#: Functions of `math` that torch has as well, under the same name.
_SAME = frozenset(
    {"sqrt", "exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh"}
    | {"asin", "acos", "atan", "erf"}
)
#: Functions of `math` that torch has not, or whose result is no tensor of floats.
_ALONE = frozenset({"floor", "ceil", "trunc", "pow", "fabs", "isnan", "isinf", "isfinite", "atan2", "hypot"})

_NO_VALUE = "which is not available while JAX traces the code"


@rule.on(ast.Call, named={"float", "int", "bool"}, traced=True, handled=_HANDLED)
def conversion(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Name) or len(call.args) != 1 or call.keywords:
        return
    if ctx.names.qualified(call.func) != f"builtins.{call.func.id}":
        return
    kind = ctx.types.of(call.args[0])
    if not isinstance(kind, Tensor) or not kind.is_traced or ctx.types.sizes_a_factory(call):
        return
    message = f"`{call.func.id}()` reads a tensor's value, {_NO_VALUE}"
    yield ctx.finding(call, message, _stay_tensor(call, call.func.id, kind, ctx))


def _stay_tensor(call: ast.Call, function: str, kind: Tensor, ctx: Context) -> Fix | None:
    if not kind.scalar or ctx.types.converts_dtypes() or not ctx.types.serves_as_tensor(call):
        return None
    argument = call.args[0]
    wanted = {"float": "float", "int": "int", "bool": "bool"}[function]
    text = ctx.rewrite.in_place_of_number(argument, kind if function == "float" else Tensor(dtype="int"))
    if kind.dtype == wanted or (function == "float" and kind.dtype == ""):
        edits: tuple[Change, ...] = (ctx.rewrite.replace(call, text),)
    else:
        imports = ctx.rewrite.imports("import torch")
        if imports is None:
            return None
        dtype = {"float": "float32", "int": "int64", "bool": "bool"}[function]
        edits = (ctx.rewrite.replace(call, f"{text}.to(torch.{dtype})"), *imports)
    title = f"replace `{function}(...)` with a zero-dimensional tensor"
    return ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)


@rule.on(ast.Call, named=_SAME | _ALONE, traced=True, handled=_HANDLED)
def of_math(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func) or ""
    if not name.startswith("math.") or not any(ctx.types.of(argument).is_traced for argument in call.args):
        return
    function = name.removeprefix("math.")
    kind = ctx.types.of(call.args[0])
    fix = None
    if function in _SAME and isinstance(kind, Tensor) and kind.scalar and len(call.args) == 1:
        text = ctx.rewrite.in_place_of_number(call.args[0], kind)
        fix = _as_tensor(call, f"torch.{function}({text})", f"torch.{function}", ctx)
    yield ctx.finding(call, f"`{name}` reads a tensor's value, {_NO_VALUE}", fix)


@rule.on(ast.Call, named={"max", "min", "sorted", "any", "all"}, traced=True, handled=_HANDLED)
def compared(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Name) or ctx.names.qualified(call.func) != f"builtins.{call.func.id}":
        return
    kinds = [ctx.types.of(argument) for argument in call.args]
    held = [_first(kind.element) if isinstance(kind, Several) else kind for kind in kinds]
    if not any(kind.is_traced for kind in held) or any(keyword.arg == "key" for keyword in call.keywords):
        return
    name = call.func.id
    if (
        len(kinds) == 1
        and isinstance(kinds[0], Several)
        and kinds[0].items is not None
        and len(kinds[0].items) < 2
    ):
        return
    fix = None
    scalars = all(isinstance(kind, Tensor) and kind.scalar for kind in kinds)
    if name in ("max", "min") and len(kinds) == 2 and scalars:
        one, two = (ctx.text(argument) for argument in call.args)
        fix = _as_tensor(call, f"torch.{name}imum({one}, {two})", f"torch.{name}imum", ctx)
    elif name in ("max", "min") and isinstance(call.args[0], ast.List | ast.ListComp) and not call.keywords:
        stacked = isinstance(held[0], Tensor) and held[0].scalar
        code = f"torch.stack({ctx.text(call.args[0])}).{name}()"
        fix = _as_tensor(call, code, f"torch.stack(...).{name}", ctx) if stacked else None
    yield ctx.finding(call, f"`{name}()` reads a tensor's value, {_NO_VALUE}", fix)


def _first(kind: Kind) -> Kind:
    """The type that a comparison of items reads first: of tuples, that of their first item."""
    return kind.items[0] if isinstance(kind, Several) and kind.items else kind


@rule.on(ast.Call, named={"equal", "is_nonzero"}, traced=True, handled=_HANDLED)
def answered(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func) or ""
    if name not in ("torch.equal", "torch.is_nonzero"):
        return
    if not any(ctx.types.of(argument).is_traced for argument in call.args):
        return
    if _decides(call, ctx):
        return  # the branch is what is reported
    yield ctx.finding(call, f"`{name}` returns a Python `bool`, so it reads a tensor's value, {_NO_VALUE}")


def _decides(call: ast.Call, ctx: Context) -> bool:
    """Whether the call is part of the condition of a branch, loop or assertion, which is reported instead."""
    inner: ast.AST = call
    for outer in ctx.ancestors(call):
        if isinstance(outer, ast.If | ast.While | ast.IfExp | ast.Assert):
            return outer.test is inner
        if not isinstance(outer, ast.BoolOp | ast.UnaryOp):
            return False
        inner = outer
    return False


def _as_tensor(call: ast.Call, code: str, new: str, ctx: Context) -> Fix | None:
    imports = ctx.rewrite.imports("import torch")
    if imports is None or ctx.types.converts_dtypes() or not ctx.types.serves_as_tensor(call):
        return None
    title = f"replace `{ctx.text(call.func)}(...)` with `{new}(...)`, which returns a tensor"
    return ctx.rewrite.fix(
        title, ctx.rewrite.replace(call, code), *imports, applicability=Applicability.UNSAFE
    )
