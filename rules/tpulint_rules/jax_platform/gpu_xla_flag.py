"""Flag of XLA for GPUs.

## What it does

Reports flags that begin with `--xla_gpu_` in the environment variable `XLA_FLAGS`, as far as the value is
written in the code.

The rule reports nothing if the setting `keep-gpu` is on.

## Why it matters on TPU

The flags configure the compiler for GPUs, and have no effect on TPU.
XLA also ends the process if it does not know a flag, as happens with flags that were removed:
`Unknown flag in XLA_FLAGS: --xla_gpu_enable_async_collectives=true`.

The message was measured with jaxlib 0.10.2.

## Fix safety

The fix is safe: it removes the flags for GPUs, and keeps all other flags.
If nothing is left, it removes the setting.

## Without a fix

If the flags are put together in another place, remove them there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Rule

rule = Rule(
    "JAX106",
    "flag of XLA for GPUs",
    module=__name__,
    fix=Applicability.SAFE,
)

_VARIABLE = "XLA_FLAGS"
_FLAG = re.compile(r"--xla_gpu_\w+(=[^\s\"']*)?")


@rule.on(ast.Constant, named={_VARIABLE})
def flags(node: ast.Constant, ctx: Context) -> Iterator[Finding]:
    found = ctx.program.variable_write(node)
    statement = ctx.statement(node)
    if found is not None:
        yield from _checked(found.value, found.statement, ctx)
    elif isinstance(statement, ast.AugAssign) and ctx.parent(node) is statement.target:
        yield from _checked(statement.value, statement, ctx)


@rule.on(ast.Call, passing={_VARIABLE})
def mapping(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    for word in call.keywords:
        if word.arg == _VARIABLE:
            yield from _checked(word.value, None, ctx)


def _checked(value: ast.expr, statement: ast.stmt | None, ctx: Context) -> Iterator[Finding]:
    texts = list(_texts(value, ctx))
    flags = [match[0].partition("=")[0] for text in texts for match in _FLAG.finditer(str(text.value))]
    if not flags or ctx.program.keeps_cuda:
        return
    named = ", ".join(f"`{flag}`" for flag in dict.fromkeys(flags))
    message = f"XLA has {named} for GPUs only, without an effect on TPU, and ends if it does not know a flag"
    yield ctx.finding(value, message, _fix(value, texts, statement, ctx))


def _texts(value: ast.expr, ctx: Context, seen: tuple[ast.expr, ...] = ()) -> Iterator[ast.Constant]:
    """The strings with flags for GPUs that the value consists of; `seen` are values that consist of it."""
    for part in ast.walk(value):
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and _FLAG.search(part.value):
            yield part
        elif isinstance(part, ast.Name):
            for assigned in ctx.names.assigned_values(part):
                if not isinstance(assigned, ast.Name) and assigned not in seen:
                    yield from _texts(assigned, ctx, (*seen, assigned))


def _fix(value: ast.expr, texts: list[ast.Constant], statement: ast.stmt | None, ctx: Context) -> Fix | None:
    if any(isinstance(ctx.parent(text), ast.JoinedStr) for text in texts):
        return None
    title = "remove the flags for GPUs"
    if statement is not None and texts == [value] and not _rest(str(texts[0].value)):
        return ctx.rewrite.fix(title, ctx.rewrite.delete(statement))
    edits: list[Change] = []
    for text in texts:
        rest = _rest(str(text.value))
        outer = ctx.parent(text)
        if not rest and isinstance(outer, ast.List | ast.Tuple):
            return None
        lead = " " if rest and str(text.value)[:1] == " " else ""
        end = " " if rest and str(text.value)[-1:] == " " else ""
        edits.append(ctx.rewrite.replace(text, ctx.rewrite.quoted(f"{lead}{rest}{end}", text)))
    return ctx.rewrite.fix(title, *edits)


def _rest(text: str) -> str:
    """The flags of a text without those for GPUs."""
    return " ".join(_FLAG.sub("", text).split())
