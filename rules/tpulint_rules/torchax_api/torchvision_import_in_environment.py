"""Import of torchvision inside the torchax environment.

## What it does

The rule reports an import of torchvision inside `with torchax.default_env():`, or after
`torchax.enable_globally()` at the top level of a file.

The rule does not report programs with the runtime torchax-compat.
With the runtime, the import of torchvision works inside the torchax environment.

## Why it matters on TPU

torchvision calls its own operators while it is imported.
Inside the torchax environment, torchax receives the calls of torchvision's operators, but implements none of
these operators.
The import then raises `OperatorNotFound: Operator with name torchvision::_cuda_version has no lowering`.
Before the program enters the torchax environment, the import of torchvision works.

These results were measured with torchvision 0.27.1 and torch 2.12.1.
If the compiled operators of torchvision do not load, every import of torchvision raises
`RuntimeError: operator torchvision::nms does not exist`.
This happens, for example, with torchvision's wheels and a PyTorch build without CUDA.

## Without a fix

Move the import of torchvision to the top of the file, before the program enters the torchax environment.

An import in a function that is called inside the environment raises the same error, but tpulint does not
report it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Context, Effort, Finding, Instance, Rule
from tpulint.rules_api.syntax import imports_package

rule = Rule(
    "TPU903",
    "import of torchvision inside the torchax environment",
    module=__name__,
    former=("import-in-environment",),
    fix=None,
    effort=Effort.MINUTES,
)

_ENVIRONMENT = Instance("torchax.tensor.Environment")


@rule.on(ast.Import)
def imported(node: ast.Import, ctx: Context) -> Iterator[Finding]:
    if imports_package(node, "torchvision"):
        yield from _found(node, ctx)


@rule.on(ast.ImportFrom)
def imported_from(node: ast.ImportFrom, ctx: Context) -> Iterator[Finding]:
    if imports_package(node, "torchvision"):
        yield from _found(node, ctx)


def _found(node: ast.stmt, ctx: Context) -> Iterator[Finding]:
    is_entered = _is_first(node, ctx) and (_is_entered_around(node, ctx) or _is_entered_before(node, ctx))
    if is_entered and not ctx.program.runtime_handles("imports of torchvision"):
        message = (
            "`torchvision` cannot be imported inside the torchax environment; "
            "import it before the program enters the environment"
        )
        yield ctx.finding(node, message)


def _is_first(node: ast.stmt, ctx: Context) -> bool:
    """Whether this is the first import of torchvision at the top of the file."""
    first = ctx.names.first_import("torchvision")
    return first is None or first is node or first.lineno > node.lineno


def _is_entered_around(node: ast.stmt, ctx: Context) -> bool:
    """Whether the import is inside a `with` that enters the torchax environment."""
    for outer in ctx.ancestors(node):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return False
        if isinstance(outer, ast.With) and any(
            ctx.types.of(item.context_expr) == _ENVIRONMENT for item in outer.items
        ):
            return True
    return False


def _is_entered_before(node: ast.stmt, ctx: Context) -> bool:
    """Whether `torchax.enable_globally()` is called before the import."""
    if not ctx.program.is_import_time:
        return False
    entered = ctx.names.top_level_calls("enable_globally")
    return any(
        ctx.names.qualified(call.func) == "torchax.enable_globally"
        and call.lineno < node.lineno
        and ctx.statement(call) in ctx.tree.body
        for call in entered
    )
