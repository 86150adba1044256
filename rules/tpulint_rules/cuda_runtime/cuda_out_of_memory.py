"""Exception handler for CUDA out-of-memory errors.

## What it does

Reports:

- `except torch.cuda.OutOfMemoryError` and `except torch.OutOfMemoryError`;
- a search for `"out of memory"` in the message of a caught exception.

## Why it matters on TPU

If a TPU runs out of memory, JAX raises `jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while
trying to allocate`.
JAX often raises this error while it compiles a function, before the compiled code starts.

- `JaxRuntimeError` is a subclass of `RuntimeError` but not of `torch.OutOfMemoryError`, so a handler for
  `torch.OutOfMemoryError` does not catch it.
- The message of `JaxRuntimeError` says `Out of memory` with a capital `O`, so a search for `"out of memory"`
  in the message finds nothing.

The handler for out-of-memory errors therefore never runs. For example, if the handler contains code to retry
with a smaller batch, the program does not retry, but stops with the error.

## Fix safety

The fix is unsafe:

- The fix adds `jax.errors.JaxRuntimeError` to the exceptions of the handler.
  JAX also raises `JaxRuntimeError` for other reasons than a lack of memory, and the handler then catches
  these errors, too.
- The fix replaces the searched string with `RESOURCE_EXHAUSTED`.
  The message of a CUDA error does not contain `RESOURCE_EXHAUSTED`, so the fixed program no longer recognizes
  that a GPU is out of memory.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tpulint.rules_api import Applicability, Context, Finding, Rule
from tpulint.rules_api import matchers as m
from tpulint.rules_api.syntax import is_name

if TYPE_CHECKING:
    import libcst as cst

rule = Rule(
    "TPU209", "exception handler for CUDA out-of-memory errors", module=__name__, fix=Applicability.UNSAFE
)

_ERRORS = frozenset({"torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError"})
_CAUGHT = frozenset(
    {
        "builtins.BaseException",
        "builtins.Exception",
        "builtins.RuntimeError",
        "jax.errors.JaxRuntimeError",
    }
)
_TEXT = "out of memory"


_ERROR = m.Attribute(attr=m.Name("OutOfMemoryError"))
_AMONG = m.Tuple([m.ZeroOrMore(), m.Element(_ERROR), m.ZeroOrMore()])


@rule.on(m.ExceptHandler(type=_ERROR | _AMONG))
def handler(found: cst.ExceptHandler, ctx: Context) -> Iterator[Finding]:
    caught = ctx.node(found)
    if any(ctx.names.qualified(item) in _CAUGHT for item in _types(ctx.parent(caught))):
        return
    imports = ctx.rewrite.imports("import jax")
    for node in _types(caught):
        name = ctx.names.qualified(node)
        if name not in _ERRORS or not isinstance(node, ast.Attribute):
            continue
        fix = None
        if imports is not None:
            both = f"{ctx.text(node)}, jax.errors.JaxRuntimeError"
            edit = ctx.rewrite.replace(node, f"({both})" if node is caught.type else both)
            title = "add `jax.errors.JaxRuntimeError` to the exceptions of this `except`"
            fix = ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
        message = (
            f"`{name}` is never raised on TPU: JAX raises `jax.errors.JaxRuntimeError` if memory runs out"
        )
        yield ctx.finding(node, message, fix)


def _types(node: ast.AST | None) -> list[ast.expr]:
    """The exceptions that a handler, or all handlers of a `try`, catch by name."""
    handlers = node.handlers if isinstance(node, ast.Try | ast.TryStar) else [node]
    found: list[ast.expr] = []
    for one in handlers:
        if isinstance(one, ast.ExceptHandler) and one.type is not None:
            found += one.type.elts if isinstance(one.type, ast.Tuple) else [one.type]
    return found


def _searches(node: ast.Compare) -> bool:
    return isinstance(node.left, ast.Constant) and _TEXT in str(node.left.value).lower()


@rule.on(ast.Compare, where=_searches)
def message(node: ast.Compare, ctx: Context) -> Iterator[Finding]:
    if not isinstance(node.left, ast.Constant) or not isinstance(node.ops[0], ast.In | ast.NotIn):
        return
    text, inside = str(node.left.value), node.comparators[0]
    lowered = isinstance(inside, ast.Call) and ast.unparse(inside.func).endswith(".lower")
    found = text.lower() if lowered else text
    if found in ("out of memory", "Out of memory") and (lowered or found[0] == "O"):
        return
    caught = _exception(node, ctx)
    uses = any(is_name(part, caught) for part in ast.walk(inside)) if caught is not None else False
    if not uses or ctx.names.qualified(ast.Name("torch", ast.Load())) != "torch":
        return
    wanted = "resource_exhausted" if lowered else "RESOURCE_EXHAUSTED"
    edit = ctx.rewrite.replace(node.left, ctx.rewrite.quoted(wanted, node.left))
    title = f"replace `{text}` with `{wanted}`, which the error message on TPU contains"
    fix = ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)
    said = f"the error message on TPU does not contain `{text}`: it is `RESOURCE_EXHAUSTED: Out of memory`"
    yield ctx.finding(node, said, fix)


def _exception(node: ast.expr, ctx: Context) -> str | None:
    """The variable of an `except` around the code that may hold JAX's exception; None if there is none."""
    for outer in ctx.ancestors(node):
        if isinstance(outer, ast.ExceptHandler):
            broad = any(ctx.names.qualified(item) in _CAUGHT for item in _types(outer))
            return outer.name if broad else None
    return None
