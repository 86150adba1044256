"""Tensor slice used where torchax requires a whole tensor.

## What it does

The rule reports these uses of a basic slice, such as `x[:, 0]`:

- `x[:, 0][index]`, if the index is a tensor or a list;
- in traced code, `y.type_as(x[0])` and `y.copy_(x[0])`;
- outside of traced code, `x[0].tolist()`;
- outside of traced code, `x[0].numpy()` and `numpy.asarray(x[0])`, but only if the code shows that `x` is on
  the torchax device: in the expression, as in `x.to("jax")[0].numpy()`, or in the assignment of `x`.
  In all other cases, the rule assumes that `x` is a CPU tensor, because `numpy()` and `numpy.asarray` of a
  CUDA tensor would raise in the original program, too.

Traced code is code that JAX traces to compile it, such as a model's `forward`.
tpulint recognizes a slice that is stored in a variable.
The result of arithmetic on a slice, or of `clone()`, is a whole tensor again, and is not reported.

## Why it matters on TPU

On torchax, a basic slice is an object of the class `View`.
Some operations do not accept a `View`, whether or not the code is jitted:

- Indexing a `View` with a tensor or a list raises `AttributeError: 'View' object has no attribute '_elem'`.
- An assignment to `x[0][index]` raises `IndexError: only integers, slices (`:`), ellipsis (`...`), newaxis
  (`None`) and integer or boolean arrays are valid indices`.
- `.tolist()` and `.numpy()` raise `RuntimeError: .tolist() is not supported for tensor subclasses, got View`.

## Fix safety

The fix is safe:

- If the code reads the slice, the fix copies the slice first: `x[:, 0].clone()[index]`,
  `x[0].clone().tolist()` and `x[0].clone().numpy()`.
- If the code assigns to `x[0][index]`, the fix assigns to `x[0, index]`.
- If the code assigns to `x[0][mask]`, the fix assigns to a copy of the slice, and then assigns the copy to
  the slice.
- The fix replaces `type_as(v)` with `.to(v.dtype)`.
  For an attribute that may hold a CPU tensor, the fix writes `.to(v.device, v.dtype)`.
- The fix replaces `z.copy_(v)` with `z[...] = v`.

## Without a fix

If the index is a mask, jitted code cannot compute `x[0][mask]`, because the shape of the result depends on
the values in the mask.
Write `x[0] = torch.where(mask, value, x[0])` instead of `x[0][mask] = value`.
If the index is not a mask, clone the slice first, as in `x[0].clone()`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Device, Finding, Fix, Rule, Several, Static, Tensor

rule = Rule(
    "TPU602",
    "tensor slice used where torchax requires a whole tensor",
    module=__name__,
    former=("slice-taken-for-tensor",),
    fix=Applicability.SAFE,
)

#: For the copy of a slice.
_NAMES = ("part", *(f"part_{number}" for number in range(2, 100)))
_METHODS = frozenset({"tolist", "numpy"})
_ARRAYS = frozenset({"numpy.array", "numpy.asarray"})


def _takes_many(node: ast.Subscript) -> bool:
    """A quick check: the index could be a tensor or a list, and the indexed expression a slice."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    sliced = isinstance(node.value, ast.Subscript | ast.Name | ast.Call)
    return sliced and not all(isinstance(part, ast.Slice | ast.Constant) for part in parts)


@rule.on(ast.Subscript, where=_takes_many)
def indexed(node: ast.Subscript, ctx: Context) -> Iterator[Finding]:
    if ctx.trace.path is None and not ctx.program.serves_device:
        return
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if not ctx.types.is_slice(node.value) or not any(_is_many(part, ctx) for part in parts):
        return
    view = ctx.text(node.value)
    message = (
        f"torchax cannot index `{view}` with a tensor or list, because `{view}` is a view of another tensor"
    )
    if isinstance(node.ctx, ast.Load):
        edit = ctx.rewrite.wrap(node.value, "", ".clone()")
        yield ctx.finding(
            node, message, ctx.rewrite.fix(f"copy the view `{view}` with `.clone()` before indexing it", edit)
        )
    else:
        yield ctx.finding(node, message, _in_one(node, ctx) or _by_copy(node, ctx))


@rule.on(ast.Call, named={"type_as", "copy_"}, traced=True)
def handed_over(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or len(call.args) != 1 or call.keywords:
        return
    receiver, given = call.func.value, call.args[0]
    if not ctx.types.of(receiver).is_traced or not ctx.types.is_slice(given):
        return
    name = call.func.attr
    whole, other = ctx.rewrite.operand(receiver), ctx.rewrite.operand(given)
    if name == "copy_":
        if ctx.types.is_slice(receiver):
            return  # which works
        fix = None
        if isinstance(ctx.parent(call), ast.Expr) and isinstance(receiver, ast.Name | ast.Attribute):
            code = f"{whole}[...] = {other}"
            edit = ctx.rewrite.replace(ctx.statement(call), code)
            fix = ctx.rewrite.fix(f"replace `copy_` with the assignment `{code}`", edit)
    else:
        # What an attribute holds may still be on the host: `type_as` moves it, too.
        device = f"{other}.device, " if isinstance(receiver, ast.Attribute) else ""
        code = f".to({device}{other}.dtype)"
        fix = ctx.rewrite.fix(f"replace `type_as` with `{code}`", ctx.rewrite.replace(call, f"{whole}{code}"))
    if fix is None and ctx.program.runtime_handles("in-place methods", name):
        return
    message = f"`{name}` raises on torchax, because its argument `{other}` is a view of another tensor"
    yield ctx.finding(call, message, fix)


@rule.on(ast.Call, named={"tolist", "numpy", "array", "asarray"})
def read(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if (
        not isinstance(call.func, ast.Attribute)
        or ctx.trace.path is not None
        or not ctx.program.serves_device
    ):
        return
    name, given = call.func.attr, call.func.value
    if ctx.names.qualified(call.func) in _ARRAYS and call.args:
        given = call.args[0]
    elif name not in _METHODS:
        return
    if not ctx.types.is_slice(given) or ctx.devices.only_with_cuda(call):
        return
    # The others raise on CUDA, too, so that what they are called on there is the host's.
    if name == "tolist" or _is_put_there(given, ctx):
        view = ctx.text(given)
        name = ctx.text(call.func) if given is not call.func.value else f"{name}()"
        title = f"copy the view `{view}` with `.clone()` before `{name}` reads it"
        fix = ctx.rewrite.fix(title, ctx.rewrite.wrap(given, "", ".clone()"))
        message = f"`{name}` raises on torchax, because `{view}` is a view of another tensor"
        yield ctx.finding(call, message, fix)


def _is_put_there(node: ast.expr, ctx: Context) -> bool:
    """Whether the tensor is created on or moved to `"jax"` in this expression, or where it is assigned."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Call):
        given = [*node.args, *(word.value for word in node.keywords)]
        return any(ctx.types.of(value) in (Device("jax"), Static("jax")) for value in given)
    found = ctx.names.lookup(node.id) if isinstance(node, ast.Name) else None
    if found is None:
        return False
    values = [binding.value for binding in found[1] if binding.value is not None]
    return any(_is_put_there(value, ctx.at(found[0])) for value in values if not isinstance(value, ast.Name))


def _is_many(part: ast.expr, ctx: Context) -> bool:
    """Whether an index is a tensor or a list, which selects elements one by one."""
    if isinstance(part, ast.List):
        return True
    kind = ctx.types.of(part)
    return kind.is_tensor or (isinstance(kind, Several) and kind.element.is_tensor)


def _by_copy(node: ast.Subscript, ctx: Context) -> Fix | None:
    """The fix that writes to a copy of the slice, and assigns the copy to the slice."""
    inner, statement = node.value, ctx.parent(node)
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    if not isinstance(inner, ast.Subscript) or not isinstance(statement, ast.Assign | ast.AugAssign):
        return None
    name = next(one for one in _NAMES if ctx.names.lookup(one) is None)
    if targets != [node] or ctx.source.shares_row(statement):
        return None
    part = ctx.text(inner)
    edits = (
        ctx.rewrite.insert_before(statement, f"{name} = {part}.clone()"),
        ctx.rewrite.replace(inner, name),
        ctx.rewrite.insert_after(statement, f"{part} = {name}"),
    )
    return ctx.rewrite.fix(f"write to a copy of `{part}`, and then assign the copy to `{part}`", *edits)


def _in_one(node: ast.Subscript, ctx: Context) -> Fix | None:
    """The fix that writes `x[0, index]` for `x[0][index]`, and `x[index, 0]` for `x[:, 0][index]`."""
    inner = node.value
    if not isinstance(inner, ast.Subscript) or isinstance(node.slice, ast.Tuple):
        return None
    parts = inner.slice.elts if isinstance(inner.slice, ast.Tuple) else [inner.slice]
    base, index = ctx.text(inner.value), ctx.text(node.slice)
    kind = ctx.types.of(node.slice)
    if not isinstance(node.slice, ast.List) and not (isinstance(kind, Tensor) and kind.dtype == "int"):
        return None  # a mask, which takes as many dimensions as it has
    if not any(isinstance(part, ast.Slice) for part in parts):
        if any(ctx.text(part) in ("None", "...") for part in parts):
            return None
        code = f"{base}[{', '.join([*map(ctx.text, parts), index])}]"
    elif len(parts) == 2 and ctx.text(parts[0]) == ":":
        if isinstance(parts[1], ast.Slice) or ctx.text(parts[1]) in ("None", "..."):
            return None
        code = f"{base}[{index}, {ctx.text(parts[1])}]"
    else:
        return None
    return ctx.rewrite.fix(f"replace `{ctx.text(node)}` with `{code}`", ctx.rewrite.replace(node, code))
