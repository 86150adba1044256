"""Environment variable of JAX that is set after JAX is imported.

## What it does

Reports code that sets a variable such as `JAX_PLATFORMS` or `JAX_ENABLE_X64` in `os.environ`, below the line
that imports JAX, or a library that imports JAX.

The rule does not report files that start other processes, because these inherit the variable, and not a GPU
platform, which [JAX101](gpu-platform-setting.md) reports.

## Why it matters on TPU

JAX reads these variables when it is imported, so the setting has no effect, without an error.
For example, a program that sets `JAX_PLATFORMS` to `cpu` too late computes on the TPU, and one that sets
`JAX_ENABLE_X64` too late computes in 32 bits.

This was measured with jax 0.10.2.

## Fix safety

The fix calls `jax.config.update` instead.
It is unsafe, because the setting then has an effect.

## Without a fix

If the value is not a string or not a truth value, or if the statement does more, set the variable before the
import, or call `jax.config.update` by hand.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.jax_platform import FLAGS, IMPORT_JAX, READ_ON_IMPORT, STARTERS, is_gpu
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule

rule = Rule(
    "JAX107",
    "environment variable of JAX that is set after JAX is imported",
    module=__name__,
    fix=Applicability.UNSAFE,
)

_SETTERS = frozenset({"os.environ.setdefault", "os.putenv"})
_TRUE, _FALSE = frozenset({"1", "on", "true", "yes"}), frozenset({"0", "off", "false", "no"})


@rule.on(ast.Constant, named=READ_ON_IMPORT)
def variable(node: ast.Constant, ctx: Context) -> Iterator[Finding]:
    found, outer, name = ctx.program.variable_write(node), ctx.parent(node), str(node.value)
    match outer:
        case ast.Subscript(value=owner) if ctx.names.qualified(owner) == "os.environ":
            pass
        case ast.Call(func=function) if ctx.names.qualified(function) in _SETTERS:
            pass
        case _:
            return
    if found is None or not _is_imported_before(node, ctx) or _starts_processes(ctx):
        return
    if any(map(is_gpu, ctx.program.texts(found.value))):
        return
    message = f"JAX reads `{name}` when it is imported, which is above, so this has no effect"
    yield ctx.finding(node, message, _fix(name, found.value, found.statement, ctx))


def _is_imported_before(node: ast.Constant, ctx: Context) -> bool:
    statements = (ctx.names.first_import(package) for package in IMPORT_JAX)
    return any(one is not None and one.lineno < node.lineno for one in statements)


def _starts_processes(ctx: Context) -> bool:
    return any(name.partition(".")[0] in STARTERS for name in ctx.program.file_imports)


def _fix(name: str, value: ast.expr, statement: ast.stmt | None, ctx: Context) -> Fix | None:
    imports = ctx.rewrite.imports("import jax")
    if statement is None or imports is None or not isinstance(value, ast.Constant):
        return None
    text = str(value.value).lower()
    if name in FLAGS:
        code = "True" if text in _TRUE else "False" if text in _FALSE else None
    else:
        code = ctx.text(value)
    if code is None:
        return None
    option = name.lower()
    edit = ctx.rewrite.replace(statement, f'jax.config.update("{option}", {code})')
    title = f'set the option `"{option}"` of `jax.config`'
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE, serves_cuda=True)
