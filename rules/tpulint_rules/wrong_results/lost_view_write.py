"""Write through a view that is a copy on torchax.

## What it does

The rule reports writes through a view, such as `x.view(-1)[0] = 1`, if the program reads the original tensor
(`x`) afterwards.
The rule checks programs that move tensors to a CUDA or torchax device, and traced code.
Traced code is code that JAX traces to compile it, such as a model's `forward`.
An indexed assignment, an augmented assignment and an in-place method each count as a write.
The rule knows two types of views:

- the result of `view`, `reshape`, `flatten`, `t`, `transpose`, `permute`, `unsqueeze`, `squeeze`, `chunk`,
  `split`, `unbind`, `narrow`, `select`, `diagonal`, `expand`, `unfold`, `detach`, `.T`, `.real` and similar;
- each row in a loop over a tensor, such as `row` in `for row in x:`.

The rule does not report the following writes:

- The rule does not report writes to basic slices, such as `x[:, 0]`, and to slices of slices.
  Basic slices are true views on torchax.
- In programs that train, the rule does not report writes to the result of `detach()`.
  The fixes of tpulint add the runtime torchax-compat to programs that train.
  With the runtime, `x.detach()` shares its elements with `x`.
- In programs that import the runtime, views share their elements with the original tensor, so a write through
  a view also changes the original tensor.
  In these programs, the rule reports only writes that have an automatic fix.

## Why it matters on TPU

torchax makes a copy where PyTorch returns a view.
A write through the view changes only this copy, and the original tensor keeps its old values.
torchax raises no error and gives no warning, whether or not the code is jitted.

## Fix safety

The fix is safe if the same elements can be written without a view:

- The fix replaces `z.view(-1).mul_(2)` with `z.mul_(2)`.
- The fix replaces `z.select(0, 1)` with `z[1]`.
- The fix replaces `z.t()[0]` with `z[:, 0]`.
- The fix replaces a loop over `z` with a loop over slices of `z`.

The fix is unsafe in two cases, in which the program can become slower or give different results:

- If a variable `v` holds a view of `z`, the fix copies the elements of the view back to `z` with
  `z.copy_(v.view_as(z))`.
  The values are the same, but on a GPU, where the view already shares its elements with `z`, the added copy
  costs time.
- If the program fills a diagonal, the fix calls `masked_fill_` with a mask from `torch.eye`.
  For a matrix, the result is the same.
  For a tensor with more dimensions, `diagonal()` selects from the first two dimensions, but the mask applies
  to the last two.

## Without a fix

Write to the original tensor by index, or compute a new tensor and use the new tensor from then on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.views import PIECES, SHAPELESS, WHOLE, WRITES
from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Rule, Static
from tpulint.rules_api.results import Copied

rule = Rule(
    "TPU601", "write through a view that is a copy on torchax", module=__name__, fix=Applicability.SAFE
)


@rule.on(ast.Subscript, where=lambda node: isinstance(node.ctx, ast.Store))
def indexed(node: ast.Subscript, ctx: Context) -> Iterator[Finding]:
    found = _lost(node.value, ctx)
    if found is not None:
        fix = _turned(node, found, ctx) or _fix(node.value, found, ctx)
        yield from _finding(node, node.value, found, fix, ctx)


@rule.on(ast.AugAssign, where=lambda node: isinstance(node.target, ast.Name))
def augmented(node: ast.AugAssign, ctx: Context) -> Iterator[Finding]:
    found = _lost(node.target, ctx)
    if found is not None:
        yield from _finding(node.target, node.target, found, _fix(node.target, found, ctx), ctx)


@rule.on(ast.Call, named=WRITES)
def in_place(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or not ctx.types.of(call.func.value).is_traced:
        return
    receiver = call.func.value
    if isinstance(receiver, ast.Call) and getattr(receiver.func, "attr", "") in WRITES:
        return  # the first of a chain is reported
    found = _lost(receiver, ctx)
    if found is not None:
        fix = _diagonal(call, found, ctx) or _left_out(call, found, ctx) or _fix(receiver, found, ctx)
        yield from _finding(call, receiver, found, fix, ctx)


def _finding(
    node: ast.expr, written: ast.expr, found: Copied, fix: Fix | None, ctx: Context
) -> Iterator[Finding]:
    """The finding, unless the program has the runtime, which makes the write change the tensor."""
    if fix is None and ctx.program.runtime_handles("writes through views"):
        return
    yield ctx.finding(node, _message(written, found, ctx), fix)


def _lost(written: ast.expr, ctx: Context) -> Copied | None:
    """Whether the write changes a copy on torchax, and the original is read later; the copy, or None."""
    if ctx.trace.path is None and not ctx.program.serves_device:
        return None
    found = ctx.types.lost_write(written)
    return None if found is not None and _is_shared(found.view, ctx) else found


def _is_shared(view: ast.expr, ctx: Context) -> bool:
    """Whether the view is `detach()`, in a program whose runtime lets it share memory."""
    is_detached = isinstance(view, ast.Call) and getattr(view.func, "attr", "") == "detach"
    return (
        is_detached
        and ctx.program.asks_gradients
        and ctx.program.runtime_handles("writes through `detach()`")
    )


def _message(written: ast.expr, found: Copied, ctx: Context) -> str:
    base, view = ctx.text(found.base), " ".join(ctx.text(found.view).split())
    if any(node is found.view for node in ast.walk(written)) and found.view is not found.base:
        what = f"`{view}` is a copy on torchax"
    else:
        root = written
        while isinstance(root, ast.Subscript | ast.Attribute | ast.Call):
            root = root.func if isinstance(root, ast.Call) else root.value
        source = f"`{view}`, which is a copy"
        if isinstance(found.made, ast.For):
            source = f"a loop over `{view}`, which yields copies"
        elif isinstance(found.view, ast.Call) and getattr(found.view.func, "attr", "") in PIECES:
            source = f"`{view}`, which returns copies"
        what = f"`{ctx.text(root)}` comes from {source} on torchax"
    return f"{what}, so this write does not change `{base}`, which is read afterwards"


def _left_out(call: ast.Call, found: Copied, ctx: Context) -> Fix | None:
    """The fix that calls the method on the tensor itself, if its shape makes no difference."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr not in SHAPELESS or not isinstance(ctx.parent(call), ast.Expr):
        return None
    if not all(isinstance(ctx.types.of(argument), Static) for argument in call.args) or call.keywords:
        return None
    node = call.func.value
    while node is not found.base:
        plain = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if not plain or node.func.attr not in WHOLE - _OTHER_ELEMENTS:  # type: ignore[attr-defined]
            return None
        node = node.func.value  # type: ignore[attr-defined]
    edit = ctx.rewrite.replace(call.func.value, ctx.text(found.base))
    title = f"write to `{ctx.text(found.base)}` directly instead of to `{ctx.text(call.func.value)}`"
    return ctx.rewrite.fix(title, edit)


#: Views of elements that are of another kind, or without a gradient.
_OTHER_ELEMENTS = frozenset({"view_as_real", "view_as_complex", "detach"})


def _turned(node: ast.Subscript, found: Copied, ctx: Context) -> Fix | None:
    """The fix that writes `z[:, i]` for `z.t()[i]`."""
    match node.value:
        case ast.Call(func=ast.Attribute(value=base, attr="t"), args=[]):
            pass
        case ast.Call(
            func=ast.Attribute(value=base, attr="transpose"),
            args=[ast.Constant(value=0 | 1 as one), ast.Constant(value=0 | 1 as two)],
        ) if one != two:
            pass
        case ast.Attribute(value=base, attr="T"):
            pass
        case _:
            return None
    number = isinstance(node.slice, ast.Constant | ast.Name | ast.UnaryOp)
    if node.value is not found.view or not number or not isinstance(ctx.types.of(node.slice), Static):
        return None
    code = f"{ctx.text(base)}[:, {ctx.text(node.slice)}]"
    title = f"write to `{code}` instead of to `{ctx.text(node)}`"
    return ctx.rewrite.fix(title, ctx.rewrite.replace(node, code))


def _diagonal(call: ast.Call, found: Copied, ctx: Context) -> Fix | None:
    """The fix that fills a diagonal with a mask."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Call() as view, attr="fill_"), args=[filled]):
            value = ctx.text(filled)
        case ast.Call(func=ast.Attribute(value=ast.Call() as view, attr="zero_"), args=[]):
            value = "0"
        case _:
            return None
    if view is not found.view or getattr(view.func, "attr", "") != "diagonal" or call.keywords:
        return None
    last = {k.arg: ctx.text(k.value) for k in view.keywords} == {"dim1": "-2", "dim2": "-1"}
    imports = ctx.rewrite.imports("import torch")
    if view.args or (view.keywords and not last) or imports is None:
        return None
    base = ctx.text(found.base)
    eye = f"torch.eye(*{base}.shape[-2:], dtype=torch.bool, device={base}.device)"
    edit = ctx.rewrite.replace(call, f"{base}.masked_fill_({eye}, {value})")
    title = "replace the write to `diagonal()` with `masked_fill_` and a `torch.eye` mask"
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)


def _fix(written: ast.expr, found: Copied, ctx: Context) -> Fix | None:
    return _index(written, found, ctx) or _loop(found, ctx) or _written_back(written, found, ctx)


def _index(written: ast.expr, found: Copied, ctx: Context) -> Fix | None:
    """The fix that replaces `select` and `narrow` with a basic slice, which is a view."""
    if written is not found.view:
        return None
    match found.view:
        case ast.Call(
            func=ast.Attribute(value=base, attr="select"), args=[ast.Constant(value=int(dim)), number]
        ):
            part = ctx.text(number)
        case ast.Call(
            func=ast.Attribute(value=base, attr="narrow"),
            args=[
                ast.Constant(value=int(dim)),
                ast.Constant(value=int(start)),
                ast.Constant(value=int(length)),
            ],
        ) if start >= 0:
            part = f"{start}:{start + length}"
        case _:
            return None
    if isinstance(base, ast.BinOp) or dim > 3:
        return None
    code = f"{ctx.text(base)}[{':, ' * dim}{part}]"
    title = f"write to `{code}`, which is a view on torchax, instead of to `{ctx.text(found.view)}`"
    return ctx.rewrite.fix(title, ctx.rewrite.replace(found.view, code))


def _loop(found: Copied, ctx: Context) -> Fix | None:
    """The fix that loops over basic slices instead of rows."""
    if not isinstance(found.made, ast.For):
        return None
    base, iterated = ctx.text(found.base), found.made.iter
    if found.view is found.base:
        rows = f"({base}[index] for index in range(len({base})))"
    else:
        match found.view:
            case ast.Call(func=ast.Attribute(attr="unbind"), args=[] | [ast.Constant(value=0)], keywords=[]):
                rows = f"({base}[index] for index in range(len({base})))"
            case ast.Call(
                func=ast.Attribute(attr="split"), args=[ast.Constant(value=int(size))], keywords=[]
            ):
                rows = f"({base}[index : index + {size}] for index in range(0, len({base}), {size}))"
            case _:
                return None
        if not any(node is found.view for node in ast.walk(iterated)):
            return None
    place = found.base if found.view is found.base else found.view
    title = f"loop over basic slices of `{base}`, which are views on torchax"
    return ctx.rewrite.fix(title, ctx.rewrite.replace(place, rows))


def _written_back(written: ast.expr, found: Copied, ctx: Context) -> Fix | None:
    """The fix that copies the elements of the view back to the tensor."""
    match found.view:
        case ast.Call(func=ast.Attribute(value=base, attr=name)) if base is found.base:
            back = _BACK.get(name, "")
        case ast.Attribute(value=base, attr="T") if base is found.base:
            back = _BACK["t"]
        case _:
            return None
    statement = ctx.statement(written)
    if ctx.source.shares_row(statement):
        return None
    pieces = _joined(found, ctx)
    if pieces is not None and isinstance(written, ast.Name):
        code, imports = pieces
        edit = ctx.rewrite.insert_after(statement, f"{ctx.text(base)}.copy_({code})")
        title = f"copy `{code}` back to `{ctx.text(base)}` after the write"
        return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
    if not back:
        return None
    text = ctx.text(found.base)
    given = found.view.args if isinstance(found.view, ast.Call) else []
    arguments = ", ".join(ctx.text(argument) for argument in given)
    if written is found.view:
        if ctx.names.is_bound("flat") or not isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr):
            return None
        held = "flat"
        edits = [
            ctx.rewrite.insert_before(statement, f"flat = {ctx.text(found.view)}"),
            ctx.rewrite.replace(written, held),
        ]
    else:
        held_by = written
        while isinstance(held_by, ast.Subscript):
            held_by = held_by.value
        if not isinstance(held_by, ast.Name) or ctx.types.last_value(held_by) is not found.view:
            return None
        held, edits = held_by.id, []
    code = back.format(view=held, base=text, arguments=arguments)
    edits.append(ctx.rewrite.insert_after(statement, f"{text}.copy_({code})"))
    title = f"copy the elements of `{held}` back to `{text}` after the write"
    if written is found.view:
        title = f"write to `{held} = {ctx.text(found.view)}`, and then copy `{held}` back to `{text}`"
    return ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)


def _joined(found: Copied, ctx: Context) -> tuple[str, tuple[Change, ...]] | None:
    """The source that joins all pieces of a tensor, with its imports; None if a piece has no name."""
    match found.made:
        case ast.Assign(targets=[ast.Tuple(elts=elements)], value=value) if value is found.view:
            pass
        case _:
            return None
    match found.view:
        case ast.Call(func=ast.Attribute(attr="unbind"), args=given, keywords=keywords):
            joined = "stack"
        case ast.Call(
            func=ast.Attribute(attr="chunk" | "split" | "tensor_split"), args=[_, *given], keywords=keywords
        ):
            joined = "cat"
        case ast.Attribute(attr="T") | ast.Call(func=ast.Attribute(attr="t")):
            joined, given, keywords = "stack", [ast.Constant(1)], []
        case _:
            return None
    imports = ctx.rewrite.imports("import torch")
    if imports is None or not all(isinstance(element, ast.Name) for element in elements):
        return None
    along = [*given, *(keyword.value for keyword in keywords if keyword.arg == "dim")]
    dim = f", dim={ast.unparse(along[0])}" if along else ""
    names = ", ".join(ctx.text(element) for element in elements)
    return f"torch.{joined}(({names}){dim})", imports


#: How a tensor is had back from a view of the whole of it.
_BACK = {
    **dict.fromkeys(
        ("view", "view_as", "reshape", "flatten", "ravel", "unflatten"), "{view}.view_as({base})"
    ),
    **dict.fromkeys(("squeeze", "unsqueeze"), "{view}.view_as({base})"),
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), "{view}.transpose({arguments})"),
    "t": "{view}.t()",
    "detach": "{view}",
}
