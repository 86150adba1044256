"""Function that JAX compiles for a GPU.

## What it does

Reports `backend="gpu"`, or another GPU platform, in `jax.jit` and `jax.pmap`, also as a decorator with
`functools.partial`.

## Why it matters on TPU

A TPU host has no GPU, so the first call of the function raises `RuntimeError: Unknown backend: 'gpu'
requested, but no platforms that are instances of gpu are present`.

The error was measured with jax 0.10.2, in which the argument `backend` of `jax.jit` is also deprecated.

## Fix safety

- The fix is safe if it removes the argument.
  JAX then compiles the function for the platform of its inputs, or for the default platform: a TPU if there
  is one, otherwise a GPU, otherwise the CPU.
- The fix is unsafe if the platform is computed: it passes `None` instead of a GPU platform.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.jax_platform import COMPILERS, is_gpu
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule

rule = Rule(
    "JAX103",
    "function that JAX compiles for a GPU",
    module=__name__,
    fix=Applicability.SAFE,
)


@rule.on(ast.Call, passing={"backend"})
def backend(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name == "functools.partial" and call.args:
        name = ctx.names.qualified(call.args[0])
    word = next(word for word in call.keywords if word.arg == "backend")
    if name not in COMPILERS:
        return
    platforms = sorted(filter(is_gpu, ctx.program.texts(word.value)), key=str)
    if platforms:
        verb = "compiles" if isinstance(word.value, ast.Constant) else "may compile"
        message = f"`{name}` {verb} for the platform `{platforms[0]}`, which a TPU host does not have"
        yield ctx.finding(word.value, f"{message}, so the call raises", _fix(word, ctx))


def _fix(word: ast.keyword, ctx: Context) -> Fix | None:
    if isinstance(word.value, ast.Constant):
        edit = ctx.rewrite.remove_argument(word)
        return ctx.rewrite.fix("remove the argument `backend`", edit, serves_cuda=True)
    if not isinstance(word.value, ast.Name | ast.Attribute):
        return None
    text = ctx.text(word.value)
    edit = ctx.rewrite.replace(word.value, f'None if {text} in ("gpu", "cuda") else {text}')
    title = f"use the default platform if `{text}` is a GPU"
    return ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE, serves_cuda=True)
