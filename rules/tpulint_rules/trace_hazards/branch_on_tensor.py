"""Python branch on a tensor's value in traced code.

## What it does

Reports Python control flow in traced code, if the branch that Python takes depends on the values of a tensor:

- `if` and `while` statements;
- conditional expressions (`a if t else b`);
- conditions of comprehensions;
- `and`, `or` and `in`.

Traced code is code that JAX traces to compile it, such as a model's `forward`.
Conditions on shapes, dtypes, `is None`, `isinstance` and configuration are not reported, because their result
is known while JAX traces the code.

## Why it matters on TPU

Python has to choose one branch while JAX traces the code.
During tracing, a tensor is a tracer, which has no values.
In jitted code, a branch on a tensor's value raises `jax.errors.TracerBoolConversionError` (in older JAX
versions, `ConcretizationTypeError`).

## Fix safety

If the branches only assign tensors, the fix replaces the `if` with one `torch.where` for each name.
A name that only one branch assigns keeps its former value otherwise.
If the condition begins with a test that Python can decide while JAX traces the code, such as
`mode == "t2v" and (x == 0).all()`, the fix keeps an `if` with this test around the `torch.where`.

The fix is unsafe, because both branches run in the fixed code.
For this reason, tpulint offers the fix only if

- each branch assigns each name at most once, and does nothing else;
- the assigned expressions consist of arithmetic and of functions of PyTorch that change nothing, draw no
  random numbers, and raise no error that depends on the values of tensors;
- both values of a name have the same shape, and no different dtypes, as far as tpulint can infer;
- a name that only one branch assigns has a value before the `if`.

In the fixed code:

- If the result of the branch that is not selected contains a NaN, gradients may become NaN.
- If the condition has one element but more than zero dimensions, `torch.where` may add dimensions to its
  result.

## Without a fix

- To run only the selected side of a branch, call `jax.lax.cond` through `torchax.interop.torch_view`.
- To repeat a computation, call `jax.lax.while_loop` through `torchax.interop.torch_view`.
- If a branch only checks a value and raises, move the check out of the traced function, or use
  `jax.experimental.checkify`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile

from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Rule, Tensor
from tpulint.rules_api.results import Condition, Selection

rule = Rule(
    "TPU303", "Python branch on a tensor's value in traced code", module=__name__, fix=Applicability.UNSAFE
)

_HANDLED = "values of tensors in Python code"
_TITLE = "replace the `if` with `torch.where`, which computes both branches"
_NO_VALUE = "depends on a tensor's value, which is not available while JAX traces the code"


@rule.on(ast.If, traced=True, handled=_HANDLED)
def if_statement(node: ast.If, ctx: Context) -> Iterator[Finding]:
    if ctx.types.needs_value(node.test) is not None:
        yield ctx.finding(node.test, f"this `if` condition {_NO_VALUE}", _where_statement(node, ctx))


@rule.on(ast.While, traced=True, handled=_HANDLED)
def while_statement(node: ast.While, ctx: Context) -> Iterator[Finding]:
    if ctx.types.needs_value(node.test) is not None:
        yield ctx.finding(node.test, f"this `while` condition {_NO_VALUE}")


@rule.on(ast.IfExp, traced=True, handled=_HANDLED)
def conditional_expression(node: ast.IfExp, ctx: Context) -> Iterator[Finding]:
    if ctx.types.needs_value(node.test) is not None:
        yield ctx.finding(node.test, f"this `if` condition {_NO_VALUE}", _where_expression(node, ctx))


@rule.on(ast.Compare, traced=True, handled=_HANDLED)
@rule.on(ast.Call, named={"any", "all", "equal", "allclose"}, traced=True, handled=_HANDLED)
def condition_of_comprehension(node: ast.Compare | ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.types.needs_value(node) is None:
        return
    test: ast.AST = node
    outer = ctx.parent(node)
    while isinstance(outer, ast.UnaryOp) and isinstance(outer.op, ast.Not):
        test, outer = outer, ctx.parent(outer)
    if isinstance(outer, ast.comprehension) and any(test is condition for condition in outer.ifs):
        yield ctx.finding(node, f"this `if` condition in a comprehension {_NO_VALUE}")


@rule.on(ast.BoolOp, traced=True, handled=_HANDLED)
def and_or(node: ast.BoolOp, ctx: Context) -> Iterator[Finding]:
    inner: ast.expr = node
    outer = ctx.parent(node)
    while isinstance(outer, ast.BoolOp) or (isinstance(outer, ast.UnaryOp) and isinstance(outer.op, ast.Not)):
        inner, outer = outer, ctx.parent(outer)
    if isinstance(outer, ast.If | ast.While | ast.IfExp | ast.Assert) and outer.test is inner:
        return
    if any(ctx.types.of(value).is_traced for value in node.values[:-1]):
        word = "and" if isinstance(node.op, ast.And) else "or"
        yield ctx.finding(node, f"the result of `{word}` {_NO_VALUE}")


def _where_statement(node: ast.If, ctx: Context) -> Fix | None:
    """The fix for branches that only assign tensors; None if they do anything else."""
    found = ctx.types.selections(node)
    test = _divided(node.test, ctx)
    imports = ctx.rewrite.imports("import torch")
    if found is None or test is None or imports is None:
        return None
    edits = _edits(node, found, test, ctx)
    return ctx.rewrite.fix(_TITLE, *edits, *imports, applicability=Applicability.UNSAFE) if edits else None


def _edits(node: ast.If, found: list[Selection], test: Condition, ctx: Context) -> list[Change]:
    """The edits that leave of the `if` what Python can decide; none if a branch shares the row of a colon."""
    source = ctx.source
    margin, inner = source.margin(node), source.margin(node) + source.indent
    is_first = source.text.startswith("if", ctx.span(node).start)  # no `elif`
    if not test.first:
        replaced = [*node.body, *node.orelse]
        indent = margin if is_first else inner
        code = source.newline.join(_where_lines(found, test.tensor, replaced, indent, ctx)).removeprefix(
            indent
        )
        outer = ctx.parent(node)
        return [
            ctx.rewrite.replace(node, code)
            if is_first or not isinstance(outer, ast.If)
            else ctx.rewrite.add_else(outer, code)
        ]
    replaced = node.body if test.is_and else node.orelse
    if any(source.ahead_of(branch[0]).strip() for branch in (node.body, replaced) if branch):
        return []
    lines = _where_lines(found, test.tensor, replaced[1:], inner, ctx)
    code = source.newline.join(lines).removeprefix(inner)
    selecting = (
        ctx.rewrite.replace_run(replaced[0], len(replaced), code)
        if replaced
        else ctx.rewrite.add_else(node, code)
    )
    return [ctx.rewrite.replace(node.test, test.first), selecting]


def _where_lines(
    found: list[Selection], tensor: str, replaced: list[ast.stmt], indent: str, ctx: Context
) -> list[str]:
    """One `torch.where` for each name, below the comments that stand above the replaced assignments.

    Several of them share one variable for the condition.
    """
    is_kept = tensor.isidentifier() and all(one.name != tensor for one in found)
    lines = []
    if len(found) > 1 and not is_kept:
        name = ctx.rewrite.new_name("condition")
        lines.append(f"{indent}{name} = {tensor}")
        tensor = name
    for one in found:
        values = [
            one.name if value is None else ctx.rewrite.block_text(value) for value in (one.then, one.other)
        ]
        head = f"{one.name} = torch.where"
        former = (ctx.statement(value) for value in (one.then, one.other) if value is not None)
        comments = (ctx.rewrite.comments_above(statement) for statement in former if statement in replaced)
        lines += [f"{indent}{row}" for rows in comments for row in rows]
        lines += ctx.rewrite.call_lines(head, [tensor, *values], indent)
    return lines


def _where_expression(node: ast.IfExp, ctx: Context) -> Fix | None:
    """The fix for an expression that selects one of two tensors."""
    test = _divided(node.test, ctx)
    imports = ctx.rewrite.imports("import torch")
    if test is None or imports is None or not ctx.types.is_selectable(node.body, node.orelse):
        return None
    code = f"torch.where({test.tensor}, {ctx.text(node.body)}, {ctx.text(node.orelse)})"
    if test.first:
        then, other = (code, _operand(node.orelse, ctx)) if test.is_and else (_operand(node.body, ctx), code)
        code = f"{then} if {test.first} else {other}"
    return ctx.rewrite.fix(
        _TITLE, ctx.rewrite.replace(node, code), *imports, applicability=Applicability.UNSAFE
    )


def _divided(test: ast.expr, ctx: Context) -> Condition | None:
    """The condition in two parts; None if what follows the first tensor is not a tensor as well."""
    values = test.values if isinstance(test, ast.BoolOp) else [test]
    is_and = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)
    first = list(takewhile(lambda value: ctx.types.needs_value(value) is None, values))
    tensor = _joined(values[len(first) :], ctx, is_and=is_and)
    word = " and " if is_and else " or "
    if len(first) == 1 and isinstance(first[0], ast.BoolOp):
        code = ctx.text(first[0])
    else:
        code = word.join(_operand(value, ctx) for value in first)
    return None if tensor is None else Condition(code, is_and, tensor)


def _operand(node: ast.expr, ctx: Context) -> str:
    """The source of an expression, in parentheses if an operator beside it would divide it."""
    is_loose = isinstance(node, ast.BoolOp | ast.IfExp | ast.Lambda | ast.NamedExpr)
    return f"({ctx.text(node)})" if is_loose else ctx.text(node)


def _joined(values: list[ast.expr], ctx: Context, *, is_and: bool) -> str | None:
    """The source of several conditions as one boolean tensor; None if one of them is not a tensor."""
    parts = [part for value in values if (part := _tensor(value, ctx)) is not None]
    if len(parts) != len(values):
        return None
    return parts[0] if len(parts) == 1 else (" & " if is_and else " | ").join(f"({part})" for part in parts)


def _tensor(test: ast.expr, ctx: Context) -> str | None:
    """The source of the condition as one boolean tensor; None if a part of it is not a tensor."""
    match test:
        case ast.BoolOp():
            return _joined(test.values, ctx, is_and=isinstance(test.op, ast.And))
        case ast.UnaryOp(op=ast.Not()):
            inner = _tensor(test.operand, ctx)
            simple = isinstance(test.operand, ast.Name | ast.Call | ast.Attribute | ast.Subscript)
            return None if inner is None else f"~{inner}" if simple else f"~({inner})"
        case _:
            kind = ctx.types.of(test)
            if not isinstance(kind, Tensor):
                return None
            return ctx.text(test) if kind.is_bool else f"({ctx.text(test)}) != 0"
