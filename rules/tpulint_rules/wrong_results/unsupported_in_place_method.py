"""In-place method that torchax lacks or gets wrong.

## What it does

Flags, in code that tracing reaches, in-place methods that torchax lacks (`exp_`, `abs_`, `round_`, `t_`,
`set_`, `resize_` and about sixty more), methods such as `zero_`, `fill_` and `masked_fill_` on a slice,
`fill_diagonal_`, `exponential_` and `cauchy_`, and `type_as` of a tensor that is read again.
In programs that use a device, also `batch.resize_(x.size()).copy_(x)`, by which older ones fill one tensor
with each batch.

## Why it matters on TPU

Some raise an error: `torchax.ops.ops_registry.OperatorNotFound: Operator with name aten::exp_ has no
lowering`.
The others say nothing: `x[0].zero_()` leaves `x` as it was, `fill_diagonal_` fills something else,
`exponential_` fills nothing, `x.type_as(y)` converts `x` itself, and `x.resize_(y.size()).copy_(y)` leaves
`x` as it was; `x.resize_(2, 3)` raises `TypeError: 'int' object is not iterable`.
All of that is so with and without jit.

## Fix safety

Safe where the same method without `_` gives the elements to assign: `x[0] = x[0].exp()`, `x[0] = 0`,
`x.copy_(x.exp())`; a name that nothing else shares is bound anew, `x = x.exp()`; `x.type_as(y)` becomes
`x.to(y.dtype)`.
Unsafe for `fill_diagonal_`, which becomes `masked_fill_` with `torch.eye`: that is the same for a matrix.
Unsafe for `x.resize_(y.size()).copy_(y)`, which becomes `x = y.to(x)`: who else holds `x` keeps what it was.
Unsafe for `torch.empty_like(x).exponential_()`: the random numbers come from another stream.
In programs that train it stays: the folder that TPU611 writes beside them draws as torch does.

## Without a fix

Compute a new tensor and go on with it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix
from tpulint.knowledge.views import LOST_ON_SLICES, NO_LOWERING, WITHOUT_EFFECT
from tpulint.model.values.kinds import Tensor, Unknown
from tpulint.model.values.views import Copied, is_shared, is_slice, read_after
from tpulint.rule import Context, Rule

rule = Rule(
    "TPU603",
    "in-place method that torchax lacks or gets wrong",
    module=__name__,
    former=("broken-in-place-method",),
    fix=Applicability.SAFE,
)


@rule.on(ast.Call, named=NO_LOWERING, traced=True)
def without_lowering(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if isinstance(call.func, ast.Attribute) and ctx.kind(call.func.value).is_traced:
        fix = _out_of_place(call, call.func.value, call.func.attr, ctx)
        yield ctx.finding(call, f"`{call.func.attr}` has no lowering on torchax", fix)


@rule.on(ast.Call, named={"set_", "resize_"}, traced=True)
def of_storage(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or not ctx.kind(call.func.value).is_traced:
        return
    if _filled(call, ctx) is None:  # else it is reported below
        yield ctx.finding(call, f"`{call.func.attr}` fails on torchax, where tensors have no storage")


@rule.on(ast.Call, named={"resize_"})
def filled_anew(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    """`batch.resize_(x.size()).copy_(x)`, by which older programs fill one tensor with each batch."""
    filling = _filled(call, ctx)
    if filling is None or not (ctx.trace_path is not None or ctx.serves_device):
        return
    name, value = filling
    kind = ctx.kind(name)
    if isinstance(kind, Tensor | Unknown) and not (isinstance(kind, Tensor) and kind.is_host):
        statement = ctx.statement(call)
        edit = ctx.replace(statement, f"{name.id} = {ctx.operand(value)}.to({name.id})")
        fix = ctx.fix("name the filled tensor", edit, applicability=Applicability.UNSAFE)
        message = "`resize_` leaves the tensor as it was on torchax, or raises: it is not filled"
        yield ctx.finding(call, message, fix)


@rule.on(ast.Call, named=LOST_ON_SLICES, traced=True)
def on_slice(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or not ctx.kind(call.func.value).is_traced:
        return
    name, receiver = call.func.attr, call.func.value
    if is_slice(ctx.module, receiver, ctx.scope):
        message = f"`{name}` of a slice does nothing on torchax, and says so nowhere"
        yield ctx.finding(call, message, _assigned(call, receiver, name, ctx))


@rule.on(ast.Call, named={"fill_diagonal_"})
def on_diagonal(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or not ctx.kind(call.func.value).is_traced:
        return
    receiver = call.func.value
    if (ctx.trace_path is not None or ctx.serves_device) and not is_slice(ctx.module, receiver, ctx.scope):
        message = "`fill_diagonal_` fills other elements than the diagonal on torchax"
        yield ctx.finding(call, message, _masked(call, receiver, ctx))


@rule.on(ast.Call, named=WITHOUT_EFFECT, traced=True)
def without_effect(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.is_amended:
        return
    if isinstance(call.func, ast.Attribute) and ctx.kind(call.func.value).is_traced:
        message = f"`{call.func.attr}` leaves the tensor as it was on torchax, and says so nowhere"
        yield ctx.finding(call, message, _exponential(call, call.func.value, ctx))


@rule.on(ast.Call, named={"type_as"}, traced=True)
def converts_itself(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or len(call.args) != 1:
        return
    receiver, other = call.func.value, call.args[0]
    if not isinstance(receiver, ast.Name) or not ctx.kind(receiver).is_traced:
        return
    if is_slice(ctx.module, other, ctx.scope) or ctx.text(receiver) == ctx.text(other):
        return
    statement = ctx.statement(call)
    if read_after(ctx.module, Copied(receiver, receiver, statement), statement, ctx.scope):
        fix = ctx.fix(
            "use `.to()` with the dtype", ctx.replace(call, f"{receiver.id}.to({ctx.operand(other)}.dtype)")
        )
        message = f"`type_as` converts `{receiver.id}` itself on torchax, and it is read again"
        yield ctx.finding(call, message, fix)


def _filled(call: ast.Call, ctx: Context) -> tuple[ast.Name, ast.expr] | None:
    """The name that is resized and then filled by a whole statement, and what with."""
    outer = ctx.parent(call)
    copying = ctx.parent(outer) if isinstance(outer, ast.Attribute) and outer.attr == "copy_" else None
    match call.func, copying:
        case ast.Attribute(value=ast.Name() as name), ast.Call(args=[value], keywords=[]):
            if isinstance(ctx.parent(copying), ast.Expr):
                return name, value
    return None


def _arguments(call: ast.Call, ctx: Context) -> str:
    """The arguments with their parentheses, as they are laid out."""
    return ctx.module.source.text[ctx.span(call.func).end : ctx.span(call).end]


def _out_of_place(call: ast.Call, receiver: ast.expr, name: str, ctx: Context) -> Fix | None:
    text = ctx.operand(receiver)
    code = f"{text}.{name.removesuffix('_')}{_arguments(call, ctx)}"
    alone = isinstance(ctx.parent(call), ast.Expr)
    if isinstance(receiver, ast.BinOp):
        return ctx.fix("take the result", ctx.replace(call, code))
    if alone and (
        is_slice(ctx.module, receiver, ctx.scope)
        if isinstance(receiver, ast.Subscript)
        else isinstance(receiver, ast.Name) and not is_shared(ctx.module, receiver, ctx.scope)
    ):
        return ctx.fix("keep the result of the method without `_`", ctx.replace(call, f"{text} = {code}"))
    if isinstance(receiver, ast.Name | ast.Attribute | ast.Subscript) and name not in ("t_", "put_"):
        return ctx.fix("write the result back", ctx.replace(call, f"{text}.copy_({code})"))
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
    return ctx.fix("write the elements by an assignment", ctx.replace(call, f"{target} = {value}"))


def _masked(call: ast.Call, receiver: ast.expr, ctx: Context) -> Fix | None:
    imports = ctx.imports("import torch")
    if len(call.args) != 1 or call.keywords or not isinstance(receiver, ast.Name) or imports is None:
        return None
    eye = f"torch.eye(*{receiver.id}.shape, dtype=torch.bool, device={receiver.id}.device)"
    edit = ctx.replace(call, f"{receiver.id}.masked_fill_({eye}, {ctx.text(call.args[0])})")
    title = "use a masked fill with `torch.eye`"
    return ctx.fix(title, edit, *imports, applicability=Applicability.UNSAFE)


def _exponential(call: ast.Call, receiver: ast.expr, ctx: Context) -> Fix | None:
    """Exponentially distributed numbers from uniform ones."""
    rate_one = not call.keywords and all(
        isinstance(argument, ast.Constant) and argument.value == 1 for argument in call.args
    )
    match receiver:
        case ast.Call(args=[like]) if ctx.qualified_name(receiver.func) == "torch.empty_like":
            pass
        case _:
            return None
    imports = ctx.imports("import torch")
    if not rate_one or ctx.text(call.func)[-len("exponential_") :] != "exponential_" or imports is None:
        return None
    code = ctx.grouped(call, f"-torch.log1p(-torch.rand_like({ctx.text(like)}))")
    title = "make them from uniform numbers"
    return ctx.fix(title, ctx.replace(call, code), *imports, applicability=Applicability.UNSAFE)
