"""Read by a boolean mask in traced code.

## What it does

Flags `x[mask]`, where `mask` is a boolean tensor, or one of unknown dtype whose name ends in `mask`, in code
that tracing reaches, and writes that need to know how many places there are (`x[mask] += v`,
`x[mask] = y[mask]`, `x[:, mask] = v`).
`x[mask] = 0.5` traces well and is left alone.

## Why it matters on TPU

How many elements come out depends on the mask's values, and XLA compiles for fixed shapes:
`jax.errors.NonConcreteBooleanIndexError: Array boolean indices must be concrete` under jit.

## Fix safety

`x[mask].sum()` and `x[mask].mean()` become a `torch.where` with the shape of `x`.
The fix is safe where the mask is known to have the shape of `x`, since it was computed from it element by
element; there is none where that is not known, since a mask with fewer dimensions selects rows.
A NaN or an infinity outside the mask does not reach the sum.

## Without a fix

Keep the full shape and carry the mask along: a masked loss is a sum of `torch.where(mask, loss, 0)`
divided by `mask.sum()`, a partition is `x[torch.argsort((~mask).to(torch.int32), stable=True)]`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix
from tpulint.model.kinds import Tensor
from tpulint.rule import Context, Rule

rule = Rule("TPU401", "read by a boolean mask in traced code", module=__name__, fix=Applicability.SAFE)


@rule.on(ast.Subscript, traced=True)
def mask_read(node: ast.Subscript, ctx: Context) -> Iterator[Finding]:
    base = ctx.kind(node.value)
    if not isinstance(base, Tensor) or isinstance(node.ctx, ast.Del):
        return
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if not any(_is_mask(part, ctx) for part in parts):
        return
    if isinstance(node.ctx, ast.Store) and len(parts) == 1 and not _writes_selection(node, ctx):
        return
    message = "the mask decides how many elements this has, and XLA needs fixed shapes"
    yield ctx.finding(node, message, _where(node, ctx))


def _is_mask(part: ast.expr, ctx: Context) -> bool:
    kind = ctx.kind(part)
    if isinstance(kind, Tensor):
        name = part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""
        return kind.is_bool or (kind.certain and not kind.dtype and name.endswith("mask"))
    if isinstance(part, ast.Compare) and not isinstance(part.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn):
        sides = [ctx.kind(side) for side in (part.left, *part.comparators)]
        return any(side.is_tensor for side in sides) or ctx.is_parameter(part.left)
    return False


def _writes_selection(node: ast.Subscript, ctx: Context) -> bool:
    """Whether `x[mask] = value` needs to know how many places there are, as `x[mask] = y[mask]` does.

    A number, a row, or whatever else fits every place, traces well.
    """
    outer = ctx.parent(node)
    if not isinstance(outer, ast.Assign):
        return True
    return any(
        isinstance(inner, ast.Subscript) and _is_mask(inner.slice, ctx) for inner in ast.walk(outer.value)
    )


def _where(node: ast.Subscript, ctx: Context) -> Fix | None:
    base, mask = ctx.kind(node.value), ctx.kind(node.slice)
    if (
        not isinstance(base, Tensor)
        or not isinstance(mask, Tensor)
        or not base.root
        or base.root != mask.root
    ):
        return None
    method = ctx.parent(node)
    call = ctx.parent(method) if isinstance(method, ast.Attribute) else None
    if not isinstance(method, ast.Attribute) or not isinstance(call, ast.Call) or call.args or call.keywords:
        return None
    imports = ctx.imports("import torch")
    if imports is None or call.func is not method or method.attr not in ("sum", "mean"):
        return None
    values, where = ctx.text(node.value), ctx.text(node.slice)
    code = f"torch.where({where}, {values}, 0).sum()"
    if method.attr == "mean":
        simple = isinstance(node.slice, ast.Name)
        code += f" / {where if simple else f'({where})'}.sum()"
        code = ctx.grouped(call, code)
    return ctx.fix("reduce over the full shape with `torch.where`", ctx.replace(call, code), *imports)
