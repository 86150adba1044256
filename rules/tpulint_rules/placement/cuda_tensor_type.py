"""CUDA tensor type.

## What it does

Flags the old types of tensors, such as `torch.cuda.FloatTensor`: called, given to `tensor.type(...)` by name
or as a string, and everything else that is done with them but for asking `isinstance`.

## Why it matters on TPU

There is no such type without CUDA:
`TypeError: type torch.cuda.FloatTensor not available. Torch not compiled with CUDA enabled`, or
`RuntimeError: Cannot initialize CUDA without ATen_cuda library` from `tensor.type(...)`.

## Fix safety

Safe: `tensor.type(torch.cuda.FloatTensor)` becomes `tensor.to("jax", torch.float32)`, and the call of a type
with a list `torch.tensor(..., dtype=torch.float32, device="jax")`.
There is none for a call with sizes, and for a type that is kept in a variable.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix
from tpulint.rule import Context, Rule

rule = Rule("TPU104", "CUDA tensor type", module=__name__, fix=Applicability.SAFE)

_DTYPES = {
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "LongTensor": "int64",
    "IntTensor": "int32",
    "ShortTensor": "int16",
    "CharTensor": "int8",
    "ByteTensor": "uint8",
    "BoolTensor": "bool",
}
_STRINGS = frozenset(f"torch.cuda.{name}" for name in _DTYPES)
_MESSAGE = "`{}` raises where there is no NVIDIA GPU"


@rule.on(ast.Attribute, named=_DTYPES)
def named(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    if ctx.qualified_name(node) not in _STRINGS:
        return
    outer = ctx.parent(node)
    if isinstance(outer, ast.Tuple):
        outer = ctx.parent(outer)
    if isinstance(outer, ast.Call) and ctx.qualified_name(outer.func) == "builtins.isinstance":
        return
    fix = _fix(node, node.attr, outer, ctx) if isinstance(outer, ast.Call) else None
    yield ctx.finding(node, _MESSAGE.format(f"torch.cuda.{node.attr}"), fix)


@rule.on(ast.Constant, where=lambda node: node.value in _STRINGS)
def by_string(node: ast.Constant, ctx: Context) -> Iterator[Finding]:
    outer = ctx.parent(node)
    if not isinstance(outer, ast.Call) or outer.args[:1] != [node]:
        return
    of_tensor = isinstance(outer.func, ast.Attribute) and outer.func.attr == "type"
    if of_tensor or ctx.qualified_name(outer.func) == "torch.set_default_tensor_type":
        name = str(node.value)
        fix = _fix(node, name.rpartition(".")[2], outer, ctx)
        yield ctx.finding(node, _MESSAGE.format(name), fix)


def _fix(node: ast.expr, name: str, call: ast.Call, ctx: Context) -> Fix | None:
    imports = ctx.imports("import torch")
    if imports is None or call.keywords:
        return None
    dtype = f"torch.{_DTYPES[name]}"
    match call:
        case ast.Call(func=ast.Attribute(value=receiver, attr="type"), args=[only]) if only is node:
            code = f'{ctx.text(receiver)}.to("jax", {dtype})'
            return ctx.fix("move it with `.to`", ctx.replace(call, code), *imports)
        case ast.Call(func=func, args=[ast.List() as values]) if func is node:
            code = f'torch.tensor({ctx.text(values)}, dtype={dtype}, device="jax")'
            return ctx.fix("make it with `torch.tensor`", ctx.replace(call, code), *imports)
    return None
