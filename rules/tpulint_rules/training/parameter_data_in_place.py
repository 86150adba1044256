"""Parameters changed in place through `.data`.

## What it does

Flags statements such as `p.data.clamp_(-c, c)` and `p.data.add_(p.grad, alpha=-lr)` in loops over
`model.parameters()` and `named_parameters()`.
Functions that initialise, whose parameters are on the host, are left alone.

## Why it matters on TPU

On torchax `.data` of a parameter still requires gradients, and the change raises `RuntimeError: a leaf
Variable that requires grad is being used in an in-place operation.`

## Fix safety

Unsafe: the parameter itself is changed, under `torch.no_grad()`, which gives the same values.
Torch then counts the change, so a backward pass that still needs the old value raises, where `.data` hides
that from it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix
from tpulint.rule import Context, Rule

rule = Rule(
    "TPU642", "parameters changed in place through `.data`", module=__name__, fix=Applicability.UNSAFE
)

_PARAMETERS = frozenset({"parameters", "named_parameters"})


@rule.on(ast.Attribute, named={"data"})
def data(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    if not isinstance(node.value, ast.Name) or not ctx.serves_device:
        return
    statement = ctx.statement(node)
    if not isinstance(statement, ast.Expr) or not _changes(statement.value, node):
        return
    function = ctx.scope.function
    if function is not None and function.name.lstrip("_").startswith(("init", "reset", "weights_init")):
        return
    if any(_is_over_parameters(outer, node.value.id) for outer in ctx.ancestors(statement)):
        message = f"`.data` of `{node.value.id}` still requires gradients on torchax, so changing it raises"
        yield ctx.finding(node, message, _fix(statement, ctx))


def _changes(value: ast.expr, node: ast.Attribute) -> bool:
    """Whether an expression is a chain of in-place methods that begins at a node."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if not value.func.attr.endswith("_"):
            return False
        value = value.func.value
    return value is node


def _is_over_parameters(outer: ast.AST, name: str) -> bool:
    if not isinstance(outer, ast.For):
        return False
    targets = {target.id for target in ast.walk(outer.target) if isinstance(target, ast.Name)}
    return name in targets and any(
        isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _PARAMETERS
        for call in ast.walk(outer.iter)
    )


def _fix(statement: ast.Expr, ctx: Context) -> Fix | None:
    source, span = ctx.module.source, ctx.span(statement)
    line = source.line_starts[statement.lineno - 1]
    indent = source.text[line : span.start]
    imports = ctx.imports("import torch")
    if indent.strip() or imports is None or statement.end_lineno != statement.lineno:
        return None
    text = ctx.text(statement).replace(".data.", ".").replace(".data)", ")").replace(".data,", ",")
    code = f"with torch.no_grad():{source.newline}{indent}    {text}"
    edit = ctx.replace(statement, code)
    title = "change the parameter itself, under `torch.no_grad()`"
    return ctx.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
