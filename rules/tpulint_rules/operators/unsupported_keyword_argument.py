"""Keyword argument that torchax does not accept.

## What it does

Reports, in traced code (code that runs while JAX traces it), `F.linear(x, weight=w)` and the few other
functions of torch whose parameters have different names in torchax, where an argument is passed by its torch
name.

## Why it matters on TPU

Torchax replaces these functions with its own, whose parameters have different names.
With and without `jit`, they raise `TypeError: functional_linear() got an unexpected keyword argument
'weight'`, `TypeError: linalg_solve() got an unexpected keyword argument 'A'` and similar errors.

## Fix safety

Safe: the fix passes the arguments by position, in the order of torch.

## Without a fix

Where the keyword arguments are not in the order of the parameters, pass them by position by hand.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Span
from tpulint.rule import Context, Rule

rule = Rule(
    "TPU632",
    "keyword argument that torchax does not accept",
    module=__name__,
    former=("unknown-argument-name",),
    fix=Applicability.SAFE,
)

#: The first parameters as torch names them and torchax does not: torchax 0.0.14.dev20261026.
_NAMES = {
    "torch.corrcoef": ("input",),
    "torch.linalg.det": ("A",),
    "torch.linalg.slogdet": ("A",),
    "torch.linalg.solve": ("A", "B"),
    "torch.linalg.svd": ("A",),
    "torch.nn.functional.linear": ("input", "weight"),
    "torch.svd": ("input",),
}


@rule.on(ast.Call, named={name.rpartition(".")[2] for name in _NAMES}, traced=True)
def named(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not call.keywords:
        return
    name = ctx.qualified_name(call.func)
    names = _NAMES.get(name or "", ())
    words = [keyword for keyword in call.keywords if keyword.arg in names]
    if not words or ctx.only_with_cuda(call):
        return
    edits = None
    # By position only where each stands where it belongs, so that nothing need change places.
    if [keyword.arg for keyword in call.keywords[: len(words)]] == list(names[len(call.args) :]):
        edits = [ctx.edit(Span(ctx.span(word).start, ctx.span(word.value).start), "") for word in words]
    fix = ctx.fix("pass it by position", *edits) if edits else None
    message = f"`{name}` does not accept the keyword argument `{words[0].arg}` on torchax"
    yield ctx.finding(words[0].value, message, fix)
