"""Legacy CUDA tensor type, such as `torch.cuda.FloatTensor`.

## What it does

Reports these uses of a legacy CUDA tensor type, such as `torch.cuda.FloatTensor`:

- a call of the tensor type as a constructor;
- the tensor type as an argument of `tensor.type(...)`: either the type itself or its name as a string;
- any other use of the tensor type, except in `isinstance`.

## Why it matters on TPU

The legacy CUDA tensor types do not exist without CUDA.
A use of such a type raises `TypeError: type torch.cuda.FloatTensor not available. Torch not compiled with
CUDA enabled`.
In `tensor.type(...)`, such a type raises `RuntimeError: Cannot initialize CUDA without ATen_cuda library`.

## Fix safety

In a program that does not enter the torchax environment yet, the fix is unsafe: `"jax"` raises there until
the fix of TPU001 (`missing-torchax-environment`) is applied, too.
Otherwise, the fix is safe if the program uses the tensor type directly:

- `tensor.type(torch.cuda.FloatTensor)` becomes `tensor.to("jax", torch.float32)`.
- A call of the tensor type with a list becomes `torch.tensor(..., dtype=torch.float32, device="jax")`.
- In `torch.arange(n, out=torch.cuda.LongTensor(n))`, the fix replaces the argument `out` with the arguments
  `dtype` and `device`.

The fix is unsafe if a variable holds the tensor type, because other code that reads the variable then gets a
different value:

- The fix assigns the dtype to the variable, and `tensor.type(variable)` becomes `tensor.to("jax",
  torch.float32)`.
- If the program calls the variable as a constructor, the fix assigns a function to the variable. The assigned
  function creates the tensor on the host and moves the tensor to the device.
- If the program uses the variable in another way, or assigns it in several branches, the fix enters the
  torchax environment with the runtime torchax-compat.
  The runtime provides the CUDA tensor types: a call of such a type creates a tensor on the device.
  With the runtime, `tensor.type(...)` moves the tensor to the device.

## Without a fix

Some uses of a legacy CUDA tensor type have no fix.
Instead of calling the type, create the tensor with `torch.tensor(..., dtype=..., device="jax")` or
`torch.empty(..., dtype=..., device="jax")`.
Replace `tensor.type(...)` with `tensor.to("jax", dtype)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.cuda_api import TENSOR_DTYPES
from tpulint.knowledge.runtime import DISTRIBUTION
from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule
from tpulint.rules_api.syntax import is_name

rule = Rule(
    "TPU104",
    "legacy CUDA tensor type, such as `torch.cuda.FloatTensor`",
    module=__name__,
    fix=Applicability.SAFE,
    targets=EVERY_TARGET,
)

_STRINGS = frozenset(f"torch.cuda.{name}" for name in TENSOR_DTYPES)
_TYPES = "CUDA tensor types"
_MESSAGE = "the CUDA tensor type `{}` raises on a TPU host, which has no NVIDIA GPU"
_COMPARED = "no tensor on TPU has the CUDA tensor type `{}`, so this comparison never matches"


@rule.on(ast.Attribute, named=TENSOR_DTYPES)
def named(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(node) not in _STRINGS:
        return
    outer = ctx.parent(node)
    if isinstance(outer, ast.Tuple):
        outer = ctx.parent(outer)
    call = ctx.parent(outer) if isinstance(outer, ast.IfExp) else outer
    around = ctx.names.qualified(call.func) if isinstance(call, ast.Call) else None
    if around in ("builtins.isinstance", "torch.set_default_tensor_type"):
        return
    fix = _fix(node, node.attr, outer, ctx) if isinstance(outer, ast.Call) else _kept(node, ctx)
    if fix is None:
        if ctx.program.runtime_handles(_TYPES, f"torch.cuda.{node.attr}"):
            return
        fix = _brought(ctx)
    message = _COMPARED if isinstance(outer, ast.Compare) else _MESSAGE
    yield ctx.finding(node, message.format(f"torch.cuda.{node.attr}"), fix)


@rule.on(ast.Constant, named=_STRINGS)
def by_string(node: ast.Constant, ctx: Context) -> Iterator[Finding]:
    outer, name = ctx.parent(node), str(node.value)
    if isinstance(outer, ast.Assign | ast.IfExp | ast.Tuple) and isinstance(ctx.statement(node), ast.Assign):
        if not ctx.program.runtime_handles(_TYPES, name):
            yield ctx.finding(node, _MESSAGE.format(name), _brought(ctx))
    elif not isinstance(outer, ast.Call) or outer.args[:1] != [node]:
        return
    elif isinstance(outer.func, ast.Attribute) and outer.func.attr == "type":
        fix = _fix(node, name.rpartition(".")[2], outer, ctx)
        yield ctx.finding(node, _MESSAGE.format(name), fix)


def _brought(ctx: Context) -> Fix | None:
    """The fix that adds the runtime, which provides such types; None for programs without a device."""
    if not ctx.program.serves_device:
        return None
    title = f"add the runtime {DISTRIBUTION}, whose CUDA tensor types create tensors on the TPU"
    return ctx.rewrite.runtime_fix(title)


def _fix(node: ast.expr, name: str, call: ast.Call, ctx: Context) -> Fix | None:
    imports = ctx.rewrite.imports("import torch")
    if imports is None or call.keywords:
        return None
    dtype = f"torch.{TENSOR_DTYPES[name]}"
    match call:
        case ast.Call(func=ast.Attribute(value=receiver, attr="type"), args=[only]) if only is node:
            code = f'{ctx.text(receiver)}.to("jax", {dtype})'
            title = f'replace `.type({ctx.text(node)})` with `.to("jax", {dtype})`'
            return ctx.rewrite.fix(title, ctx.rewrite.replace(call, code), *imports)
        case ast.Call(func=func, args=[ast.List() as values]) if func is node:
            code = f'torch.tensor({ctx.text(values)}, dtype={dtype}, device="jax")'
            title = f'replace `torch.cuda.{name}(...)` with `torch.tensor(..., dtype={dtype}, device="jax")`'
            return ctx.rewrite.fix(title, ctx.rewrite.replace(call, code), *imports)
    word = ctx.parent(call)
    maker = ctx.parent(word) if isinstance(word, ast.keyword) and word.arg == "out" else None
    if (
        isinstance(maker, ast.Call)
        and isinstance(word, ast.keyword)
        and ctx.names.qualified(maker.func) == "torch.arange"
    ):
        place = ctx.rewrite.arguments(maker).index(word)
        edits = (
            ctx.rewrite.replace(word, f"dtype={dtype}"),
            ctx.rewrite.add_argument(maker, 'device="jax"', place + 1),
        )
        title = f'replace `out=torch.cuda.{name}(...)` with `dtype={dtype}, device="jax"`'
        return ctx.rewrite.fix(title, *edits, *imports)
    return None


def _kept(node: ast.Attribute, ctx: Context) -> Fix | None:
    """The fix for a variable that holds the type, and all of its uses; None if there are other uses."""
    statement, imports = ctx.statement(node), ctx.rewrite.imports("import torch")
    if not isinstance(statement, ast.Assign) or imports is None or len(statement.targets) != 1:
        return None
    target, value = statement.targets[0], statement.value
    chosen = (
        isinstance(value, ast.IfExp) and value.body is node and _is_host_type(value.orelse, node.attr, ctx)
    )
    if not isinstance(target, ast.Name) or not (value is node or chosen):
        return None
    names = _aliases(target, ctx)
    if names is None:
        return None
    dtype = f"torch.{TENSOR_DTYPES[node.attr]}"
    edits, called, found = [], False, len(names) - 1
    for call, scope in ctx.names.all_calls():
        match call:
            case ast.Call(func=ast.Attribute(value=receiver, attr="type"), args=[given], keywords=[]) if any(
                is_name(given, name) for name in names
            ):
                text = f"{ctx.rewrite.operand(receiver)}.to({ctx.rewrite.device}, {dtype})"
                edits.append(ctx.at(scope).rewrite.replace(call, text))
            case ast.Call(func=func) if any(is_name(func, name) for name in names):
                called = True
            case _:
                continue
        found += 1
    if found != sum(1 for name in names for _ in ctx.names.loads(name)):
        return None
    made = f"lambda *data: torch.{node.attr}(*data).to({ctx.rewrite.device})" if called else dtype
    edits.append(ctx.rewrite.replace(value, made))
    title = f"replace the CUDA tensor type with the dtype `{dtype}`"
    if called:
        title = "replace the CUDA tensor type with a function that creates the tensor on the TPU"
    return ctx.rewrite.fix(title, *edits, *imports, applicability=Applicability.UNSAFE)


def _aliases(target: ast.Name, ctx: Context) -> list[str] | None:
    """The names of a type, as in `Tensor = FloatTensor`; None if one may have another value."""
    names = [target]
    for load in ctx.names.loads(target.id):
        around = ctx.parent(load)
        if isinstance(around, ast.Assign) and around.value is load:
            names += [one for one in around.targets if isinstance(one, ast.Name)]
    if any(len(ctx.names.assigned_values(one)) != 1 or _is_taken_elsewhere(one.id, ctx) for one in names):
        return None
    return [one.id for one in names]


def _is_host_type(node: ast.expr, name: str, ctx: Context) -> bool:
    own = ("torch.FloatTensor", "torch.Tensor") if name == "FloatTensor" else (f"torch.{name}",)
    return ctx.names.qualified(node) in own


def _is_taken_elsewhere(name: str, ctx: Context) -> bool:
    """Whether another file imports the variable."""
    return ctx.program.is_imported_elsewhere(name)
