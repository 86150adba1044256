"""Argument by a name that torchax does not know.

## What it does

Flags, in code that tracing reaches, `F.linear(x, weight=w)` and the few other functions of torch whose
arguments have another name in torchax, where one is given by torch's name.

## Why it matters on TPU

torchax puts functions of its own in the place of these, with parameters of its own.
With and without jit they raise `TypeError: functional_linear() got an unexpected keyword argument 'weight'`,
`TypeError: linalg_solve() got an unexpected keyword argument 'A'` and the like.

## Fix safety

Safe: the arguments are given by position, in torch's order.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Span
from tpulint.rule import Context, Rule

rule = Rule(
    "TPU632",
    "argument by a name that torchax does not know",
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
    yield ctx.finding(words[0].value, f"torchax does not know the argument `{words[0].arg}` of `{name}`", fix)
