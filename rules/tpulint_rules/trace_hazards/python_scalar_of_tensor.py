"""`float()`, `int()` or `bool()` of a tensor in traced code.

## What it does

Flags `float(t)`, `int(t)` and `bool(t)` of a tensor in code that tracing reaches.

## Why it matters on TPU

Each asks the tracer for its value, and raises `jax.errors.ConcretizationTypeError`
(`TracerBoolConversionError` for `bool`) under jit.

## Fix safety

Unsafe: the tensor without dimensions takes the number's place where the number only meets tensors in
arithmetic.
`int(t)` becomes a conversion to `torch.int64`, `float(t)` of an integer tensor one to
`torch.float32`; both truncate and round as Python does.
The result is the same as long as the tensors that meet have one dtype; there is no fix in a function that
converts dtypes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Edit, Finding, Fix
from tpulint.model.kinds import Tensor
from tpulint.model.uses import converts_dtypes, serves_as_tensor
from tpulint.rule import Context, Rule

rule = Rule(
    "TPU302",
    "`float()`, `int()` or `bool()` of a tensor in traced code",
    module=__name__,
    fix=Applicability.UNSAFE,
)


@rule.on(ast.Call, named={"float", "int", "bool"}, traced=True)
def conversion(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Name) or len(call.args) != 1 or call.keywords:
        return
    if ctx.qualified_name(call.func) != f"builtins.{call.func.id}":
        return
    kind = ctx.kind(call.args[0])
    if not isinstance(kind, Tensor) or not kind.is_traced or ctx.sizes_a_factory(call):
        return
    message = f"`{call.func.id}()` of a tensor needs its value, which a tracer does not have"
    yield ctx.finding(call, message, _stay_tensor(call, call.func.id, kind, ctx))


def _stay_tensor(call: ast.Call, function: str, kind: Tensor, ctx: Context) -> Fix | None:
    if not kind.scalar or converts_dtypes(ctx.scope) or not serves_as_tensor(ctx.module, call, ctx.scope):
        return None
    argument = call.args[0]
    wanted = {"float": "float", "int": "int", "bool": "bool"}[function]
    simple = isinstance(argument, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    text = ctx.text(argument) if simple else f"({ctx.text(argument)})"
    if kind.dtype == wanted or (function == "float" and kind.dtype == ""):
        edits: tuple[Edit, ...] = (ctx.replace(call, text),)
    else:
        imports = ctx.imports("import torch")
        if imports is None:
            return None
        dtype = {"float": "float32", "int": "int64", "bool": "bool"}[function]
        edits = (ctx.replace(call, f"{text}.to(torch.{dtype})"), *imports)
    return ctx.fix("go on with a tensor", *edits, applicability=Applicability.UNSAFE)
