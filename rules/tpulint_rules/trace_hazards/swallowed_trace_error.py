"""Broad `except` around code that fails while JAX traces it.

## What it does

Reports `except Exception`, `except BaseException`, `except TypeError` and a bare `except` in traced code, if
both conditions hold:

- The `except` block does not contain a `raise`.
- The `try` block reads the value of a tensor: `.item()`, `float(t)`, `if t > 0` and similar.

Traced code is code that JAX traces to compile it, such as a model's `forward`.

## Why it matters on TPU

While JAX traces a function, tensors have no values.
In jitted code, reading a tensor's value therefore raises `jax.errors.ConcretizationTypeError`,
`TracerBoolConversionError` or `TracerArrayConversionError`.
All three errors are subclasses of `TypeError`, so the broad `except` catches them.
The compiled program then always takes the `except` branch, without an error.
This also happens in functions that the runtime torchax-compat compiles: the runtime computes a
function with values only if the function raises one of these errors.

## Without a fix

- For the code in the `try` block that reads the tensor's value, tpulint reports a separate finding.
  Rewrite this code as the separate finding describes.
- In the `except` clause, name the specific exceptions that the code expects.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Context, Finding, Rule, Span
from tpulint.rules_api.syntax import statements

rule = Rule("TPU307", "broad `except` around code that fails while JAX traces it", module=__name__, fix=None)

_BROAD = ("builtins.Exception", "builtins.BaseException", "builtins.TypeError")


@rule.on(ast.Try, traced=True)
def attempt(node: ast.Try, ctx: Context) -> Iterator[Finding]:
    handler = next((handler for handler in node.handlers if _is_broad(handler, ctx)), None)
    if handler is None or any(isinstance(inner, ast.Raise) for inner in ast.walk(handler)):
        return
    needed = next((found for statement in statements(node.body) if (found := _needs(statement, ctx))), None)
    if needed is not None:
        start = ctx.source.span(handler.body[0]).start
        start = ctx.source.text.rfind("except", 0, start)
        message = (
            f"jitted code always runs this `except` block, because `{ctx.text(needed)}` "
            "needs a tensor's value and raises while JAX traces the code"
        )
        yield ctx.finding_at(Span(start, start + len("except")), message)


def _is_broad(handler: ast.ExceptHandler, ctx: Context) -> bool:
    """True for a handler that catches `Exception`, `BaseException`, `TypeError` or everything."""
    caught = handler.type
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught] if caught is not None else []
    return caught is None or any(ctx.names.qualified(name) in _BROAD for name in names)


def _needs(statement: ast.stmt, ctx: Context) -> ast.expr | None:
    """Whether a statement of the `try` block needs a tensor's value; the part that does, or None."""
    if isinstance(statement, ast.If | ast.While | ast.Assert):
        return statement.test if ctx.types.needs_value(statement.test) is not None else None
    if (
        not isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign | ast.Return)
        or statement.value is None
    ):
        return None
    for node in ast.walk(statement.value):
        if isinstance(node, ast.IfExp) and ctx.types.needs_value(node.test) is not None:
            return node.test
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr="item" | "tolist" | "numpy"), args=[]):
                if ctx.types.of(value).is_traced:
                    return node
            case ast.Call(func=ast.Name(id="float" | "int" | "bool" as name) as func, args=[value]):
                if ctx.types.of(value).is_traced and ctx.names.qualified(func) == f"builtins.{name}":
                    return node
            case _:
                pass
    return None
