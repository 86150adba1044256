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

The fix is unsafe, because both sides of the branch run in the fixed code.
If both sides of the branch only assign or return tensors of the same shape, the fix replaces the branch with
`torch.where`.

- If one side of the branch has a side effect or raises an error, the fixed code has this effect or raises
  this error at each call, even if the condition selects the other side.
- If the result of the side that is not selected contains a NaN, gradients may become NaN.

## Without a fix

- To run only the selected side of a branch, call `jax.lax.cond` through `torchax.interop.torch_view`.
- To repeat a computation, call `jax.lax.while_loop` through `torchax.interop.torch_view`.
- If a branch only checks a value and raises, move the check out of the traced function, or use
  `jax.experimental.checkify`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix
from tpulint.model.values.kinds import Tensor
from tpulint.model.values.uses import concretized
from tpulint.rule import Context, Rule

rule = Rule(
    "TPU303", "Python branch on a tensor's value in traced code", module=__name__, fix=Applicability.UNSAFE
)

_NO_VALUE = "depends on a tensor's value, which is not available while JAX traces the code"


@rule.on(ast.If, traced=True)
def if_statement(node: ast.If, ctx: Context) -> Iterator[Finding]:
    if concretized(ctx.module, node.test, ctx.scope) is not None:
        yield ctx.finding(node.test, f"this `if` condition {_NO_VALUE}", _where_statement(node, ctx))


@rule.on(ast.While, traced=True)
def while_statement(node: ast.While, ctx: Context) -> Iterator[Finding]:
    if concretized(ctx.module, node.test, ctx.scope) is not None:
        yield ctx.finding(node.test, f"this `while` condition {_NO_VALUE}")


@rule.on(ast.IfExp, traced=True)
def conditional_expression(node: ast.IfExp, ctx: Context) -> Iterator[Finding]:
    if concretized(ctx.module, node.test, ctx.scope) is not None:
        fix = _where(node, node.test, node.body, node.orelse, "", ctx)
        yield ctx.finding(node.test, f"this `if` condition {_NO_VALUE}", fix)


@rule.on(ast.Compare, traced=True)
@rule.on(ast.Call, named={"any", "all", "equal", "allclose"}, traced=True)
def condition_of_comprehension(node: ast.Compare | ast.Call, ctx: Context) -> Iterator[Finding]:
    if concretized(ctx.module, node, ctx.scope) is None:
        return
    test: ast.AST = node
    outer = ctx.parent(node)
    while isinstance(outer, ast.UnaryOp) and isinstance(outer.op, ast.Not):
        test, outer = outer, ctx.parent(outer)
    if isinstance(outer, ast.comprehension) and any(test is condition for condition in outer.ifs):
        yield ctx.finding(node, f"this `if` condition in a comprehension {_NO_VALUE}")


@rule.on(ast.BoolOp, traced=True)
def and_or(node: ast.BoolOp, ctx: Context) -> Iterator[Finding]:
    inner: ast.expr = node
    outer = ctx.parent(node)
    while isinstance(outer, ast.BoolOp) or (isinstance(outer, ast.UnaryOp) and isinstance(outer.op, ast.Not)):
        inner, outer = outer, ctx.parent(outer)
    if isinstance(outer, ast.If | ast.While | ast.IfExp | ast.Assert) and outer.test is inner:
        return
    if any(ctx.kind(value).is_traced for value in node.values[:-1]):
        word = "and" if isinstance(node.op, ast.And) else "or"
        yield ctx.finding(node, f"the result of `{word}` {_NO_VALUE}")


def _where_statement(node: ast.If, ctx: Context) -> Fix | None:
    """The fix for `if t: name = a` with or without `else: name = b`; None if it has another form."""
    then = _assignment(node.body)
    other = _assignment(node.orelse) if node.orelse else None
    if then is None or (node.orelse and (other is None or other[0] != then[0])):
        return None
    name, value = then
    target = node.body[0]
    assert isinstance(target, ast.Assign)
    if other is not None:
        return _where(node, node.test, value, other[1], f"{name} = ", ctx)
    old = next((load for load in ast.walk(value) if isinstance(load, ast.Name) and load.id == name), None)
    return _where(node, node.test, value, old, f"{name} = ", ctx) if old is not None else None


def _assignment(body: list[ast.stmt]) -> tuple[str, ast.expr] | None:
    match body:
        case [ast.Assign(targets=[ast.Name(id=name)], value=value)]:
            return name, value
        case _:
            return None


def _where(
    whole: ast.stmt | ast.expr, test: ast.expr, then: ast.expr, other: ast.expr, prefix: str, ctx: Context
) -> Fix | None:
    one, two = ctx.kind(then), ctx.kind(other)
    if not isinstance(one, Tensor) or not isinstance(two, Tensor) or not one.root or one.root != two.root:
        return None  # `torch.where` needs one shape
    condition = _condition(test, ctx)
    imports = ctx.imports("import torch")
    if condition is None or imports is None:
        return None
    code = f"{prefix}torch.where({condition}, {ctx.text(then)}, {ctx.text(other)})"
    title = "replace the `if` with `torch.where`, which computes both branches"
    return ctx.fix(title, ctx.replace(whole, code), *imports, applicability=Applicability.UNSAFE)


def _condition(test: ast.expr, ctx: Context) -> str | None:
    """The source of the condition as one boolean tensor; None if a part of it is not a tensor."""
    match test:
        case ast.BoolOp():
            parts = [_condition(value, ctx) for value in test.values]
            if any(part is None for part in parts):
                return None
            sign = " & " if isinstance(test.op, ast.And) else " | "
            return sign.join(f"({part})" for part in parts)
        case ast.UnaryOp(op=ast.Not()):
            inner = _condition(test.operand, ctx)
            simple = isinstance(test.operand, ast.Name | ast.Call | ast.Attribute | ast.Subscript)
            return None if inner is None else f"~{inner}" if simple else f"~({inner})"
        case _:
            kind = ctx.kind(test)
            if not isinstance(kind, Tensor):
                return None
            return ctx.text(test) if kind.is_bool else f"({ctx.text(test)}) != 0"
