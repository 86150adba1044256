"""Tensor slice where torchax requires a whole tensor.

## What it does

Reports these uses of a basic slice, such as `x[:, 0]`:

- `x[:, 0][index]`, where the index is a tensor or a list
- `y.type_as(x[0])` and `y.copy_(x[0])`, in traced code (code that runs while JAX traces it)
- `x[0].tolist()`, outside of traced code
- `x[0].numpy()` and `numpy.asarray(x[0])`, outside of traced code, where `x` is moved to the torchax device
  right there; elsewhere the tensor is on the CPU, because these calls fail for CUDA tensors, too

A slice is tracked through variables.
The result of arithmetic or of `clone()` is a whole tensor again.

## Why it matters on TPU

On torchax, a basic slice is an object of the class `View`, which some operations do not accept, with or
without `jit`.

- Indexing it raises `AttributeError: 'View' object has no attribute '_elem'`.
- Assigning to such an index raises `IndexError: only integers, slices (`:`), ellipsis (`...`), newaxis
  (`None`) and integer or boolean arrays are valid indices`.
- Converting it to a list raises `RuntimeError: .tolist() is not supported for tensor subclasses, got View`;
  `.numpy()` raises the same error.

## Fix safety

Safe:

- Reads use a copy: `x[:, 0].clone()[index]`, `x[0].clone().tolist()` and `x[0].clone().numpy()`.
- An assignment to `x[0][index]` becomes one to `x[0, index]`.
  If the index is a mask, it becomes an assignment to a copy of the slice, which is then assigned to the
  slice.
- `type_as(v)` becomes `.to(v.dtype)`, or `.to(v.device, v.dtype)` where an attribute may be on the CPU.
- `z.copy_(v)` becomes `z[...] = v`.

## Without a fix

For a mask as index, which has no fixed shape, write `x[0] = torch.where(mask, value, x[0])`.
In other cases, clone the slice first, as in `x[0].clone()`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix
from tpulint.model.values.kinds import Device, Several, Static, Tensor
from tpulint.model.values.views import is_slice
from tpulint.rule import Context, Rule

rule = Rule(
    "TPU602",
    "tensor slice where torchax requires a whole tensor",
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
    if ctx.trace_path is None and not ctx.serves_device:
        return
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if not is_slice(ctx.module, node.value, ctx.scope) or not any(_is_many(part, ctx) for part in parts):
        return
    message = f"`{ctx.text(node.value)}` is a slice, which torchax cannot index with a tensor or list"
    if isinstance(node.ctx, ast.Load):
        edit = ctx.insert(ctx.span(node.value).end, ".clone()")
        yield ctx.finding(node, message, ctx.fix("index a copy of the slice", edit))
    else:
        yield ctx.finding(node, message, _in_one(node, ctx) or _by_copy(node, ctx))


@rule.on(ast.Call, named={"type_as", "copy_"}, traced=True)
def handed_over(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or len(call.args) != 1 or call.keywords:
        return
    receiver, given = call.func.value, call.args[0]
    if not ctx.kind(receiver).is_traced or not is_slice(ctx.module, given, ctx.scope):
        return
    name = call.func.attr
    whole, other = ctx.operand(receiver), ctx.operand(given)
    if name == "copy_":
        if is_slice(ctx.module, receiver, ctx.scope):
            return  # which works
        fix = None
        if isinstance(ctx.parent(call), ast.Expr) and isinstance(receiver, ast.Name | ast.Attribute):
            fix = ctx.fix(
                "write the elements with an assignment", ctx.replace(call, f"{whole}[...] = {other}")
            )
    else:
        # What an attribute holds may still be on the host: `type_as` moves it, too.
        device = f"{other}.device, " if isinstance(receiver, ast.Attribute) else ""
        fix = ctx.fix(
            "use `.to(...)` with the dtype", ctx.replace(call, f"{whole}.to({device}{other}.dtype)")
        )
    yield ctx.finding(call, f"`{name}` with the slice `{other}` raises an error on torchax", fix)


@rule.on(ast.Call, named={"tolist", "numpy", "array", "asarray"})
def read(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or ctx.trace_path is not None or not ctx.serves_device:
        return
    name, given = call.func.attr, call.func.value
    if ctx.qualified_name(call.func) in _ARRAYS and call.args:
        given = call.args[0]
    elif name not in _METHODS:
        return
    if not is_slice(ctx.module, given, ctx.scope) or ctx.only_with_cuda(call):
        return
    # The others raise on CUDA, too, so that what they are called on there is the host's.
    if name == "tolist" or _is_put_there(given, ctx):
        fix = ctx.fix("read a copy of the slice", ctx.insert(ctx.span(given).end, ".clone()"))
        yield ctx.finding(call, f"`{name}` on the slice `{ctx.text(given)}` raises an error on torchax", fix)


def _is_put_there(node: ast.expr, ctx: Context) -> bool:
    """Whether the tensor is created on or moved to `"jax"` in this expression, or where it is assigned."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Call):
        given = [*node.args, *(word.value for word in node.keywords)]
        return any(ctx.kind(value) in (Device("jax"), Static("jax")) for value in given)
    found = ctx.module.names.lookup(node.id, ctx.scope) if isinstance(node, ast.Name) else None
    if found is None:
        return False
    values = [binding.value for binding in found[1] if binding.value is not None]
    return any(_is_put_there(value, ctx.at(found[0])) for value in values if not isinstance(value, ast.Name))


def _is_many(part: ast.expr, ctx: Context) -> bool:
    """Whether an index is a tensor or a list, which selects elements one by one."""
    if isinstance(part, ast.List):
        return True
    kind = ctx.kind(part)
    return kind.is_tensor or (isinstance(kind, Several) and kind.element.is_tensor)


def _by_copy(node: ast.Subscript, ctx: Context) -> Fix | None:
    """The fix that writes to a copy of the slice, and assigns the copy to the slice."""
    inner, statement = node.value, ctx.parent(node)
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    if not isinstance(inner, ast.Subscript) or not isinstance(statement, ast.Assign | ast.AugAssign):
        return None
    source, start = ctx.module.source, ctx.span(statement).start
    indent = source.ahead_of(statement)
    name = next(one for one in _NAMES if ctx.module.names.lookup(one, ctx.scope) is None)
    if targets != [node] or indent.strip():
        return None
    gap = f"{source.newline}{indent}"
    part = ctx.text(inner)
    edits = (
        ctx.insert(start, f"{name} = {part}.clone(){gap}"),
        ctx.replace(inner, name),
        ctx.insert(ctx.span(statement).end, f"{gap}{part} = {name}"),
    )
    return ctx.fix("write to a copy of the slice and assign it back", *edits)


def _in_one(node: ast.Subscript, ctx: Context) -> Fix | None:
    """The fix that writes `x[0, index]` for `x[0][index]`, and `x[index, 0]` for `x[:, 0][index]`."""
    inner = node.value
    if not isinstance(inner, ast.Subscript) or isinstance(node.slice, ast.Tuple):
        return None
    parts = inner.slice.elts if isinstance(inner.slice, ast.Tuple) else [inner.slice]
    base, index = ctx.text(inner.value), ctx.text(node.slice)
    kind = ctx.kind(node.slice)
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
    return ctx.fix("use a single index", ctx.replace(node, code))
