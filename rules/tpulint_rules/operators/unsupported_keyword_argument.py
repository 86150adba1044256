"""Keyword argument that torchax does not accept.

## What it does

In traced code, the rule reports keyword arguments that torchax rejects, because the parameters of the
function have other names in torchax than in PyTorch.
Traced code is code that JAX traces to compile it, such as a model's `forward`.
An example is `F.linear(x, weight=w)`; only a few functions are affected.

## Why it matters on TPU

torchax replaces some functions of PyTorch, such as `F.linear`, with its own functions, whose parameters have
different names.
Whether or not the code is jitted, a call with PyTorch's parameter names raises an error such as
`TypeError: functional_linear() got an unexpected keyword argument 'weight'` or
`TypeError: linalg_solve() got an unexpected keyword argument 'A'`.

## Fix safety

The fix is safe: it passes the arguments by position, in the order of PyTorch's parameters.

## Without a fix

If the keyword arguments of a call are not in the order of the parameters, the call has no automatic fix.
Change such a call by hand, so that it passes the arguments by position.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Finding, Rule

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
    name = ctx.names.qualified(call.func)
    names = _NAMES.get(name or "", ())
    words = [keyword for keyword in call.keywords if keyword.arg in names]
    if not words or ctx.devices.only_with_cuda(call):
        return
    edits = None
    # By position only where each stands where it belongs, so that nothing need change places.
    if [keyword.arg for keyword in call.keywords[: len(words)]] == list(names[len(call.args) :]):
        edits = [ctx.rewrite.replace(word, ctx.text(word.value)) for word in words]
    if edits is None and ctx.program.runtime_handles("keyword arguments as in PyTorch", name or ""):
        return
    title = f"pass {' and '.join(f'`{word.arg}`' for word in words)} by position instead of by keyword"
    fix = ctx.rewrite.fix(title, *edits) if edits else None
    message = f"`{name}` does not accept the keyword argument `{words[0].arg}` on torchax"
    yield ctx.finding(words[0].value, message, fix)
