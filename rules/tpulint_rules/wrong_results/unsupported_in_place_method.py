"""In-place method that torchax does not implement or computes incorrectly.

## What it does

In traced code, the rule reports:

- in-place methods that torchax does not implement: `exp_`, `abs_`, `round_`, `t_`, `set_`, `resize_` and
  about sixty more;
- methods such as `zero_`, `fill_` and `masked_fill_` on a slice;
- `exponential_` and `cauchy_`;
- `x.type_as(y)`, if the code reads `x` again.

Traced code is code that JAX traces to compile it, such as a model's `forward`.

In programs that move tensors to a CUDA or torchax device, the rule also reports the following calls, whether
or not JAX traces the code:

- `fill_diagonal_`;
- `batch.resize_(x.size()).copy_(x)`, which older programs use to copy each batch into the same tensor.

## Why it matters on TPU

Some methods raise, whether or not the code is jitted:

- A method that torchax does not implement raises
  `torchax.ops.ops_registry.OperatorNotFound: Operator with name aten::exp_ has no lowering`.
- `x.resize_(2, 3)` raises `TypeError: 'int' object is not iterable`.

Other methods give different results than in PyTorch, without an error:

- On torchax, `x[0].zero_()` does not change `x`.
- On torchax, `fill_diagonal_` fills the wrong elements.
- On torchax, `exponential_` has no effect.
- On torchax, `x.type_as(y)` converts `x` in place.
- On torchax, `x.resize_(y.size()).copy_(y)` does not change `x`.

## Fix safety

The following fixes are safe:

- If the same method without `_` exists, the fix assigns the result of that method: `x[0] = x[0].exp()`,
  `x[0] = 0`, `x.copy_(x.exp())`, or, if nothing else refers to the tensor, `x = x.exp()`.
- The fix replaces `x.type_as(y)` with `x.to(y.dtype)`.

The following fixes are unsafe, because the new code does not behave exactly like the old code:

- The fix replaces `fill_diagonal_` with `masked_fill_` and a mask from `torch.eye`.
  For a matrix, the result is the same.
  For a tensor with more dimensions, `torch.eye` raises `TypeError`.
- The fix replaces `x.resize_(y.size()).copy_(y)` with `x = y.to(x)`.
  If another variable refers to the same tensor as `x`, that variable keeps the old values.
- The fix replaces `torch.empty_like(x).exponential_()` with a computation that uses `torch.rand_like`.
  For the same seed, the computation draws other random numbers than `exponential_` draws in PyTorch.
  The rule does not report `exponential_` in programs that train.
  The fix of TPU611 (`backward-on-torchax`) adds the runtime torchax-compat to such programs, and
  the runtime draws as PyTorch does.

## Without a fix

Compute a new tensor with the method without `_`, and use the new tensor from then on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.views import LOST_ON_SLICES, NO_LOWERING, WITHOUT_EFFECT
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule, Tensor, Unknown
from tpulint.rules_api.results import Copied

rule = Rule(
    "TPU603",
    "in-place method that torchax does not implement or computes incorrectly",
    module=__name__,
    former=("broken-in-place-method",),
    fix=Applicability.SAFE,
)

_METHODS = "in-place methods"


@rule.on(ast.Call, named=NO_LOWERING, traced=True)
def without_lowering(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if isinstance(call.func, ast.Attribute) and ctx.types.of(call.func.value).is_traced:
        fix = _out_of_place(call, call.func.value, call.func.attr, ctx)
        message = (
            f"torchax does not implement the in-place `{call.func.attr}`, which raises `OperatorNotFound`"
        )
        if fix is not None or not ctx.program.runtime_handles(_METHODS, call.func.attr):
            yield ctx.finding(call, message, fix)


@rule.on(ast.Call, named={"set_", "resize_"}, traced=True)
def of_storage(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or not ctx.types.of(call.func.value).is_traced:
        return
    # Else it is reported below.
    if _filled(call, ctx) is None and not ctx.program.runtime_handles(_METHODS, call.func.attr):
        message = f"`{call.func.attr}` fails on torchax, because a torchax tensor has no storage"
        yield ctx.finding(call, f"{message}; create a new tensor instead")


@rule.on(ast.Call, named={"resize_"})
def filled_anew(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    """`batch.resize_(x.size()).copy_(x)`, with which older programs fill one tensor with each batch."""
    filling = _filled(call, ctx)
    if filling is None or not (ctx.trace.path is not None or ctx.program.serves_device):
        return
    name, value = filling
    kind = ctx.types.of(name)
    if isinstance(kind, Tensor | Unknown) and not (isinstance(kind, Tensor) and kind.is_host):
        statement = ctx.statement(call)
        code = f"{name.id} = {ctx.rewrite.operand(value)}.to({name.id})"
        title = f"replace `resize_` and `copy_` with the assignment `{code}`"
        fix = ctx.rewrite.fix(title, ctx.rewrite.replace(statement, code), applicability=Applicability.UNSAFE)
        message = f"`resize_` has no effect or raises on torchax, so `copy_` does not fill `{name.id}`"
        yield ctx.finding(call, message, fix)


@rule.on(ast.Call, named=LOST_ON_SLICES, traced=True)
def on_slice(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or not ctx.types.of(call.func.value).is_traced:
        return
    name, receiver = call.func.attr, call.func.value
    if ctx.types.is_slice(receiver):
        message = f"`{name}` does not change the slice `{ctx.text(receiver)}` on torchax, and raises no error"
        fix = _assigned(call, receiver, name, ctx)
        if fix is not None or not ctx.program.runtime_handles(_METHODS, name):
            yield ctx.finding(call, message, fix)


@rule.on(ast.Call, named={"fill_diagonal_"})
def on_diagonal(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or not ctx.types.of(call.func.value).is_traced:
        return
    receiver = call.func.value
    if (ctx.trace.path is not None or ctx.program.serves_device) and not ctx.types.is_slice(receiver):
        message = "`fill_diagonal_` fills the wrong elements on torchax, without an error"
        yield ctx.finding(call, message, _masked(call, receiver, ctx))


@rule.on(ast.Call, named=WITHOUT_EFFECT, traced=True)
def without_effect(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or not ctx.types.of(call.func.value).is_traced:
        return
    if not ctx.program.runtime_handles("random numbers on the device", call.func.attr):
        message = f"`{call.func.attr}` does not change the tensor on torchax, and raises no error"
        yield ctx.finding(call, message, _exponential(call, call.func.value, ctx))


@rule.on(ast.Call, named={"type_as"}, traced=True)
def converts_itself(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or len(call.args) != 1:
        return
    receiver, other = call.func.value, call.args[0]
    if not isinstance(receiver, ast.Name) or not ctx.types.of(receiver).is_traced:
        return
    if ctx.types.is_slice(other) or ctx.text(receiver) == ctx.text(other):
        return
    statement = ctx.statement(call)
    if ctx.types.is_read_after(Copied(receiver, receiver, statement), statement):
        code = f".to({ctx.rewrite.operand(other)}.dtype)"
        title = f"replace `type_as` with `{code}`, which does not change `{receiver.id}`"
        fix = ctx.rewrite.fix(title, ctx.rewrite.replace(call, f"{receiver.id}{code}"))
        message = (
            f"on torchax, `type_as` converts `{receiver.id}` in place, but `{receiver.id}` is read later"
        )
        yield ctx.finding(call, message, fix)


def _filled(call: ast.Call, ctx: Context) -> tuple[ast.Name, ast.expr] | None:
    """Whether a statement resizes a variable and fills it, as `x.resize_(n).copy_(y)` does; both, or None."""
    outer = ctx.parent(call)
    copying = ctx.parent(outer) if isinstance(outer, ast.Attribute) and outer.attr == "copy_" else None
    match call.func, copying:
        case ast.Attribute(value=ast.Name() as name), ast.Call(args=[value], keywords=[]):
            if isinstance(ctx.parent(copying), ast.Expr):
                return name, value
    return None


def _arguments(call: ast.Call, ctx: Context) -> str:
    """The source of the arguments, with their parentheses."""
    return ctx.source.text[ctx.span(call.func).end : ctx.span(call).end]


def _out_of_place(call: ast.Call, receiver: ast.expr, name: str, ctx: Context) -> Fix | None:
    text = ctx.rewrite.operand(receiver)
    pure = name.removesuffix("_")
    code = f"{text}.{pure}{_arguments(call, ctx)}"
    alone = isinstance(ctx.parent(call), ast.Expr)
    if isinstance(receiver, ast.BinOp):
        return ctx.rewrite.fix(
            f"replace the in-place `{name}` with `{pure}`", ctx.rewrite.replace(call, code)
        )
    if alone and (
        ctx.types.is_slice(receiver)
        if isinstance(receiver, ast.Subscript)
        else isinstance(receiver, ast.Name) and not ctx.types.is_shared(receiver)
    ):
        title = f"assign the result of `{pure}` to `{text}` instead of calling `{name}`"
        return ctx.rewrite.fix(title, ctx.rewrite.replace(ctx.statement(call), f"{text} = {code}"))
    if isinstance(receiver, ast.Name | ast.Attribute | ast.Subscript) and name not in ("t_", "put_"):
        title = f"write the result of `{pure}` to `{text}` with `copy_` instead of calling `{name}`"
        return ctx.rewrite.fix(title, ctx.rewrite.replace(call, f"{text}.copy_({code})"))
    return None


def _assigned(call: ast.Call, receiver: ast.expr, name: str, ctx: Context) -> Fix | None:
    alone = isinstance(ctx.parent(call), ast.Expr)
    if not alone or name == "fill_diagonal_":
        return None
    text = ctx.text(receiver)
    target = text if isinstance(receiver, ast.Subscript) else f"{text}[...]"
    if name == "zero_":
        value = "0"
    elif name == "fill_":
        value = ctx.text(call.args[0] if call.args else call.keywords[0].value)
    else:
        value = f"{text}.{name.removesuffix('_')}{_arguments(call, ctx)}"
    title = f"replace `{name}` with an assignment to `{target}`"
    return ctx.rewrite.fix(title, ctx.rewrite.replace(ctx.statement(call), f"{target} = {value}"))


def _masked(call: ast.Call, receiver: ast.expr, ctx: Context) -> Fix | None:
    imports = ctx.rewrite.imports("import torch")
    if len(call.args) != 1 or call.keywords or not isinstance(receiver, ast.Name) or imports is None:
        return None
    eye = f"torch.eye(*{receiver.id}.shape, dtype=torch.bool, device={receiver.id}.device)"
    edit = ctx.rewrite.replace(call, f"{receiver.id}.masked_fill_({eye}, {ctx.text(call.args[0])})")
    title = "replace `fill_diagonal_` with `masked_fill_` and a `torch.eye` mask"
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)


def _exponential(call: ast.Call, receiver: ast.expr, ctx: Context) -> Fix | None:
    """The fix that draws exponential random numbers from uniform ones."""
    rate_one = not call.keywords and all(
        isinstance(argument, ast.Constant) and argument.value == 1 for argument in call.args
    )
    match receiver:
        case ast.Call(args=[like]) if ctx.names.qualified(receiver.func) == "torch.empty_like":
            pass
        case _:
            return None
    imports = ctx.rewrite.imports("import torch")
    if not rate_one or ctx.text(call.func)[-len("exponential_") :] != "exponential_" or imports is None:
        return None
    code = ctx.rewrite.grouped(call, f"-torch.log1p(-torch.rand_like({ctx.text(like)}))")
    title = "replace `exponential_` with a logarithm of uniform numbers from `torch.rand_like`"
    return ctx.rewrite.fix(
        title, ctx.rewrite.replace(call, code), *imports, applicability=Applicability.UNSAFE
    )
