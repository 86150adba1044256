"""Indexing with a boolean mask in traced code.

## What it does

Reports the following uses of a boolean mask in traced code.
Traced code is code that JAX traces to compile it, such as a model's `forward`.

- Reads of `x[mask]`, where `mask` is a boolean tensor, or a tensor of unknown dtype with a name that ends in
  `mask`.
- Writes that need the number of selected elements: `x[mask] += v`, `x[mask] = y[mask]` and `x[:, mask] = v`.

The rule does not report `x[mask] = 0.5`, because JAX can trace this write.

## Why it matters on TPU

The number of selected elements depends on the values of the mask, but XLA compiles for fixed shapes.
In jitted code, JAX raises `jax.errors.NonConcreteBooleanIndexError: Array boolean indices must be concrete`.

## Fix safety

The fixed code computes with all elements of `x`, and selects the elements of the mask with `torch.where`:

- `x[mask].sum()`, `.mean()`, `.any()` and `.all()` become reductions over all elements.
  Reductions of elementwise expressions, such as `(x[mask] - y[mask]).sum()`, also become reductions over all
  elements.
- `x[mask] = y[mask]` and `x[mask] += 1` become writes of the whole tensor `x`.

If an element that the mask does not select is NaN or infinite, the result is still the same.

The fix is safe if the mask and the indexed tensors are known to have the same shape.
For example, `mask = x > 0` has the shape of `x`.
The fix is also safe for `x[..., mask] = 0`, which becomes `masked_fill`.

The fix is unsafe in these cases:

- The shape of the mask is not known.
  A mask with fewer dimensions than the tensor selects rows, so the fix reshapes the mask to the number of
  dimensions of the tensor.
- The program computes a sum or another reduction of an expression that contains a division, a product of
  tensors or a call, as in `(x[mask] / y[mask]).sum()`.
  If an element that the mask does not select is infinite, or makes the expression infinite, gradients become
  NaN or infinite.
- The program takes `max` or `min` of selected floating-point elements, as in `x[mask].max()`.
  If no element is selected, the original raises, but the fixed code returns an infinity.
- The expression is `len(x[mask])`, `x[mask].numel()` or `x[mask].shape[0]`.
  The result of the fixed code is a zero-dimensional tensor instead of an integer.
  tpulint offers this fix only if the program uses the integer in arithmetic with tensors.
- The expression is `F.mse_loss(x[mask], y[mask])` or a similar loss. In the fixed code, `torch.where`
  replaces the loss of each unselected element with zero. The sum over all elements is then divided by the
  number of selected elements.
- The expression is `F.cross_entropy(logits[mask], labels[mask])`. The fix replaces each unselected label with
  -100. The loss ignores elements with the label -100. The fixed code is wrong or raises if the mask does not
  have the shape of the labels.
- The expression is `torch.cat([x[mask], x[~mask]])`.
  The fix replaces it with `x[torch.argsort((~mask).int(), stable=True)]`, which also puts the selected rows
  first.
  The fixed code is wrong or raises unless the mask has one dimension.
  If the second part is `torch.zeros_like(x[~mask])`, the fix also sets each unselected row to zero.
- The expression is `x[mask].sum(0)` or `x[mask].mean(0)`.
  The fixed code is wrong or raises unless `x` has two dimensions and the mask has one.
- The statement is `x[:, mask] = 0`.
  The fixed code is wrong or raises unless the mask covers all dimensions of `x` after the first.

## Without a fix

- Instead of selecting rows, keep all rows of the tensor, and pass the mask to later code.
  Later code then computes all rows, and ignores the unselected rows only in its last step, such as the mean
  of a loss.
- Move a check such as `x[mask].numel() == y.numel()` out of the traced function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Rule, Static, Tensor, Unknown
from tpulint.rules_api.results import Lifted

rule = Rule("TPU401", "indexing with a boolean mask in traced code", module=__name__, fix=Applicability.SAFE)

#: What takes the place of the elements that a mask leaves out, so that a reduction ignores them.
_NEUTRAL = {"sum": "0", "mean": "0", "any": "False", "all": "True"}
_EXTREMES = {"max": "-inf", "amax": "-inf", "min": "inf", "amin": "inf"}
#: Losses that work element by element, with the keywords that do not change that.
_LOSSES = frozenset(
    {
        *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"),
        *("binary_cross_entropy", "binary_cross_entropy_with_logits"),
    }
)
_SIGNS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip


@rule.on(ast.Subscript, traced=True, handled="output shapes that depend on values")
def mask_read(node: ast.Subscript, ctx: Context) -> Iterator[Finding]:
    base = ctx.types.of(node.value)
    if not isinstance(base, Tensor | Unknown) or isinstance(node.ctx, ast.Del):
        return
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if not any(_is_mask(part, ctx) for part in parts):
        return
    message = (
        "the number of elements that this mask selects depends on its values, but XLA needs fixed shapes"
    )
    if isinstance(base, Unknown):  # nothing but a tensor takes a tensor of booleans for an index
        indices = [(part, ctx.types.of(part)) for part in parts]
        chosen = any(
            isinstance(kind, Tensor) and kind.is_traced and not kind.scalar and _is_mask(part, ctx)
            for part, kind in indices
        )
        if isinstance(node.ctx, ast.Load) and chosen:
            yield ctx.finding(node, message)
        return
    if base.is_host and not any(ctx.types.of(part).is_traced for part in parts):
        return  # all of it happens on the host
    if isinstance(node.ctx, ast.Store) and len(parts) == 1 and not _writes_selection(node, ctx):
        return
    if len(parts) > 1:
        fix = _fill(node, parts, ctx)
    else:
        fix = _write(node, ctx) if isinstance(node.ctx, ast.Store) else _read(node, ctx)
    yield ctx.finding(node, message, fix)


def _is_mask(part: ast.expr, ctx: Context) -> bool:
    """Whether an index is a boolean mask (a boolean tensor, or a comparison of tensors)."""
    kind = ctx.types.of(part)
    if isinstance(kind, Tensor):
        name = part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""
        return kind.is_bool or (kind.certain and not kind.dtype and name.endswith("mask"))
    if isinstance(part, ast.Compare) and not isinstance(part.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn):
        sides = [ctx.types.of(side) for side in (part.left, *part.comparators)]
        return any(side.is_tensor for side in sides) or ctx.names.is_parameter(part.left)
    return False


def _writes_selection(node: ast.Subscript, ctx: Context) -> bool:
    """Whether the write needs the number of selected elements, as `x[mask] = y[mask]` does.

    A scalar, a row, or any other value that fits each element can be traced.
    """
    outer = ctx.parent(node)
    if not isinstance(outer, ast.Assign):
        return True
    return any(
        isinstance(inner, ast.Subscript) and _is_mask(inner.slice, ctx) for inner in ast.walk(outer.value)
    )


def _made(title: str, edit: Change, ctx: Context, *, safe: bool) -> Fix | None:
    imports = ctx.rewrite.imports("import torch")
    if imports is None:
        return None
    return ctx.rewrite.fix(
        title, edit, *imports, applicability=Applicability.SAFE if safe else Applicability.UNSAFE
    )


# reads


def _read(node: ast.Subscript, ctx: Context) -> Fix | None:
    whole, found = _widest(node, ctx)
    if found is None or found.reads[0] is not node:
        return None  # the first read carries the fix for all
    return _count(node, ctx) or _reduction(whole, found, node.slice, ctx) or _in_call(node, whole, ctx)


def _widest(node: ast.Subscript, ctx: Context) -> tuple[ast.expr, Lifted | None]:
    """The widest elementwise expression around a read, and the same expression without the mask."""
    whole: ast.expr = node
    found = ctx.types.without_mask(node, node.slice)
    while True:
        outer = ctx.parent(whole)
        if isinstance(outer, ast.Attribute):
            outer = ctx.parent(outer)
        wider = ctx.types.without_mask(outer, node.slice) if isinstance(outer, ast.expr) else None
        if wider is None or not wider.reads or not isinstance(outer, ast.expr):
            return whole, found
        whole, found = outer, wider


def _count(node: ast.Subscript, ctx: Context) -> Fix | None:
    length = ctx.types.length_around(node)
    if length is None or not ctx.types.serves_as_tensor(length):
        return None
    edit = ctx.rewrite.replace(length, f"torch.count_nonzero({ctx.text(node.slice)})")
    title = "count the selected elements with `torch.count_nonzero` instead of selecting them"
    return _made(title, edit, ctx, safe=False)


def _reduction(whole: ast.expr, found: Lifted, mask: ast.expr, ctx: Context) -> Fix | None:
    """The fix for `whole.sum()` or `torch.sum(whole)`."""
    outer = ctx.parent(whole)
    if isinstance(outer, ast.Attribute):
        call, name, arguments = ctx.parent(outer), outer.attr, 0
    else:
        call, arguments = outer, 1
        name = (ctx.names.qualified(outer.func) or "") if isinstance(outer, ast.Call) else ""
        name = name.removeprefix("torch.")
    if not isinstance(call, ast.Call):
        return None
    along = [ast.unparse(argument) for argument in (*call.args[arguments:], *call.keywords)]
    if along in (["0"], ["dim=0"]) and name in ("sum", "mean"):
        return _rows(call, name, found, mask, ctx)
    if len(call.args) != arguments or along:
        return None
    kind = ctx.types.of(whole)
    dtype = kind.dtype if isinstance(kind, Tensor) else ""
    if name in ("any", "all") and dtype != "bool":
        return None
    neutral = _NEUTRAL.get(name)
    if name in _EXTREMES and dtype in ("float", ""):
        neutral = f'float("{_EXTREMES[name]}")'
    if neutral is None:
        return None
    where = _wide(mask, found, ctx)
    code = f"torch.where({where}, {found.text}, {neutral}).{'sum' if name == 'mean' else name}()"
    if name == "mean":
        code = ctx.rewrite.grouped(call, f"{code} / {_number(mask, found, ctx)}")
    safe = found.same_shape and found.plain and name in _NEUTRAL
    title = "replace the selection by the mask with `torch.where`, and reduce over all elements"
    return _made(title, ctx.rewrite.replace(call, code), ctx, safe=safe)


def _rows(call: ast.Call, name: str, found: Lifted, mask: ast.expr, ctx: Context) -> Fix | None:
    """The fix for `x[mask].sum(0)`, a sum over rows."""
    code = f"torch.where({_held(mask, ctx)}[:, None], {found.text}, 0).sum(0)"
    if name == "mean":
        code = ctx.rewrite.grouped(call, f"{code} / {_held(mask, ctx)}.sum()")
    title = "replace the selection by the mask with `torch.where`, and reduce over all rows"
    return _made(title, ctx.rewrite.replace(call, code), ctx, safe=False)


def _wide(mask: ast.expr, found: Lifted, ctx: Context) -> str:
    """The source of the mask, with as many dimensions as the tensors if it may have fewer."""
    if found.same_shape:
        return ctx.text(mask)
    held, base = _held(mask, ctx), _held(found.reads[0].value, ctx)
    return f"{held}.reshape({held}.shape + (1,) * ({base}.ndim - {held}.ndim))"


def _number(mask: ast.expr, found: Lifted, ctx: Context) -> str:
    """The source of the number of selected elements."""
    held, base = _held(mask, ctx), _held(found.reads[0].value, ctx)
    if found.same_shape:
        return f"{held}.sum()"
    return f"({held}.sum() * ({base}.numel() // {held}.numel()))"


def _held(node: ast.expr, ctx: Context) -> str:
    return ctx.text(node) if isinstance(node, ast.Name) else f"({ctx.text(node)})"


def _in_call(node: ast.Subscript, whole: ast.expr, ctx: Context) -> Fix | None:
    """The fix for a loss of two selections, or for selections that are concatenated."""
    call = ctx.parent(whole)
    if isinstance(call, ast.List) and call.elts and call.elts[0] is whole:
        return _partition(call, ctx)
    if not isinstance(call, ast.Call) or len(call.args) != 2 or call.keywords or call.args[0] is not whole:
        return None
    name = (ctx.names.qualified(call.func) or "").removeprefix("torch.nn.functional.")
    sides = [ctx.types.without_mask(argument, node.slice) for argument in call.args]
    first, second = sides
    if first is None or second is None or not second.reads:
        return None
    mask, function = ctx.text(node.slice), ctx.text(call.func)
    if name in _LOSSES:
        each = f'{function}({first.text}, {second.text}, reduction="none")'
        wide, number = _wide(node.slice, first, ctx), _number(node.slice, first, ctx)
        code = ctx.rewrite.grouped(call, f"torch.where({wide}, {each}, 0).sum() / {number}")
    elif name == "cross_entropy" and isinstance(node.value, ast.Name | ast.Attribute) and whole is node:
        rows = f"{first.text}.reshape(-1, {first.text}.shape[-1])"
        code = f"{function}({rows}, torch.where({mask}, {second.text}, -100).reshape(-1))"
    else:
        return None
    title = "replace the selection by the mask with `torch.where`, and compute the loss over all elements"
    return _made(title, ctx.rewrite.replace(call, code), ctx, safe=False)


def _partition(parts: ast.List, ctx: Context) -> Fix | None:
    """The fix for `torch.cat([a[m], b[n], a[~m], b[~n]])`, which puts the selected elements first."""
    call = ctx.parent(parts)
    if not isinstance(call, ast.Call) or call.args != [parts] or len(parts.elts) % 2:
        return None
    along = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    if ctx.names.qualified(call.func) not in ("torch.cat", "torch.concat") or along not in ({}, {"dim": "0"}):
        return None
    half = len(parts.elts) // 2
    values, masks, dropped = list[str](), list[str](), list[ast.stmt]()
    for chosen, rest in zip(parts.elts[:half], parts.elts[half:], strict=True):
        others, unused = _zeros_of(rest, ctx)
        match chosen, others or rest:
            case (
                ast.Subscript(value=ast.Name(id=value), slice=ast.Name(id=mask)),
                ast.Subscript(
                    value=ast.Name(id=two), slice=ast.UnaryOp(op=ast.Invert(), operand=ast.Name(id=inverted))
                ),
            ) if value == two and mask == inverted:
                wide = f"{mask}.reshape({mask}.shape + (1,) * ({value}.ndim - {mask}.ndim))"
                values.append(value if others is None else f"torch.where({wide}, {value}, 0)")
                masks.append(mask)
                dropped += unused
            case _:
                return None
    whole, order = values[0], masks[0]
    if half > 1:
        whole, order = f"torch.cat([{', '.join(values)}])", f"torch.cat([{', '.join(masks)}])"
    code = f"{whole}[torch.argsort((~{order}).int(), stable=True)]"
    title = "index with a stable `torch.argsort` of the mask instead of concatenating the two selections"
    imports = ctx.rewrite.imports("import torch")
    edits: list[Change] = [
        ctx.rewrite.replace(call, code),
        *map(ctx.rewrite.delete, dropped),
        *(imports or ()),
    ]
    return None if imports is None else ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)


def _zeros_of(part: ast.expr, ctx: Context) -> tuple[ast.expr | None, list[ast.stmt]]:
    """The selection of which a part holds as many zeros, and the statement that is not needed without it.

    The part is `torch.zeros_like(x[~mask])`, or a name that is given this and read nowhere else.
    """
    made, statements = part, list[ast.stmt]()
    if isinstance(part, ast.Name):
        given = ctx.names.assigned_values(part)
        if len(given) != 1 or [node.id for node in ctx.names.loads(part.id)] != [part.id]:
            return None, []
        made = given[0]
        statement = ctx.parent(made)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return None, []
        statements = [statement]
    is_made = isinstance(made, ast.Call) and ctx.names.qualified(made.func) == "torch.zeros_like"
    if not is_made or not isinstance(made, ast.Call) or len(made.args) != 1 or made.keywords:
        return None, []
    return made.args[0], statements


# writes


def _write(node: ast.Subscript, ctx: Context) -> Fix | None:
    """The fix for `x[mask] = value` and `x[mask] += value`."""
    statement = ctx.parent(node)
    if not isinstance(statement, ast.Assign | ast.AugAssign) or not isinstance(
        node.value, ast.Name | ast.Attribute
    ):
        return None
    if isinstance(statement, ast.Assign) and statement.targets != [node]:
        return None
    value = ctx.types.without_mask(statement.value, node.slice)
    target = ctx.types.without_mask(node, node.slice)
    if value is None or target is None:
        return None
    base, text, plain = ctx.text(node.value), value.text, value.plain
    if isinstance(statement, ast.AugAssign):
        sign = _SIGNS.get(type(statement.op))
        if sign is None:
            return None
        tight = isinstance(
            statement.value, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant
        )
        text = f"{base} {sign} {text if tight else f'({text})'}"
        plain = plain and (sign in "+-" or (sign == "*" and not value.reads))
    wide = _wide(node.slice, target, ctx)
    edit = ctx.rewrite.replace(statement, f"{base}[...] = torch.where({wide}, {text}, {base})")
    safe = plain and target.same_shape and (value.same_shape or not value.reads)
    title = "replace the write through the mask with `torch.where` over the whole tensor"
    return _made(title, edit, ctx, safe=safe)


def _fill(node: ast.Subscript, parts: list[ast.expr], ctx: Context) -> Fix | None:
    """The fix for `x[..., mask] = scalar` and `x[:, mask] = scalar`."""
    statement = ctx.parent(node)
    *before, mask = parts
    texts = {ast.unparse(part) for part in before}
    if not isinstance(statement, ast.Assign) or statement.targets != [node] or texts not in ({":"}, {"..."}):
        return None
    if not isinstance(ctx.types.of(statement.value), Static) or not _is_mask(mask, ctx):
        return None
    if not isinstance(node.value, ast.Name | ast.Attribute):
        return None
    base = ctx.text(node.value)
    code = f"{base}[...] = {base}.masked_fill({ctx.text(mask)}, {ctx.text(statement.value)})"
    title = "replace the write through the mask with `masked_fill` of the whole tensor"
    return _made(title, ctx.rewrite.replace(statement, code), ctx, safe=texts == {"..."})
