"""Parameter written through `data`, `detach()` or `state_dict()`.

## What it does

In programs that move tensors to a CUDA or torchax device, the rule reports calls of in-place methods on:

- `p.data` and `p.detach()` in a loop over `parameters()`, as in `p.data.add_(p.grad, alpha=-lr)`;
- the values of a `state_dict()`, as in `sd[key].copy_(average)`.

A write to `p.data` under `torch.no_grad()` is not reported, because it changes the parameter.

The rule does not report methods in which a module writes to its own parameters, such as `reset_parameters`.
Such a method runs while the module is still on the CPU, where the write changes the parameter.

## Why it matters on TPU

- On torchax, `p.data` is the parameter itself.
  A write to `p.data` raises
  `RuntimeError: a leaf Variable that requires grad is being used in an in-place operation`.
- On torchax, `p.detach()` and the values of a `state_dict()` are copies.
  A write to such a copy does not change the parameter, and raises no error.
  For example, if a program updates an average of the weights in this way, the average keeps its initial
  value.

## Fix safety

- The fix is safe if it writes to the parameter itself under `torch.no_grad()`, which has the same effect on
  any device.
- The fix is safe if it adds `keep_vars=True` to `state_dict()`, which then returns the parameters themselves.
- The fix is unsafe if the program writes to the values of a `state_dict()` outside of `torch.no_grad()`.
  In this case, the fix enters the torchax environment with the runtime torchax-compat.
  With the runtime, writes to the values of a `state_dict()` change the parameters.
  The runtime also changes other parts of torch and torchax for the whole program.

## Without a fix

Write to the parameter itself inside a `with torch.no_grad():` block, as in `p.add_(p.grad, alpha=-lr)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.runtime import DISTRIBUTION
from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Rule
from tpulint.rules_api.syntax import calls_looped_over

rule = Rule(
    "TPU618",
    "parameter written through `data`, `detach()` or `state_dict()`",
    module=__name__,
    fix=Applicability.SAFE,
)

_PARAMETERS = frozenset({"parameters", "named_parameters"})


@rule.on(ast.Call, named=lambda name: name.endswith("_") and not name.startswith("_"))
def written(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    statement = ctx.parent(call)
    if (
        not isinstance(statement, ast.Expr)
        or not ctx.program.serves_device
        or ctx.devices.only_with_cuda(call)
    ):
        return
    target: ast.expr = call
    while isinstance(target, ast.Call) and _in_place(target):
        assert isinstance(target.func, ast.Attribute)
        target = target.func.value
    match target:
        case ast.Attribute(attr="data", value=ast.Name() as name):
            way = "data"
        case ast.Call(func=ast.Attribute(attr="detach", value=ast.Name() as name), args=[], keywords=[]):
            way = "detach()"
        case ast.Subscript(value=ast.Name() as name) | (ast.Name() as name):
            states = list(_states(target, name, ctx))
            if states:
                fix = _kept(states, statement, ctx)
                if fix is None and ctx.program.runtime_handles("writes to values of `state_dict()`"):
                    return
                message = (
                    "`state_dict()` returns copies on torchax, so this write does not change the parameters"
                )
                yield ctx.finding(call, message, fix or _shared(ctx))
            return
        case _:
            return
    if way == "data" and ctx.trace.is_without_gradient(statement):
        return  # the write to the parameter itself then works
    if not _is_own(ctx) and calls_looped_over(name, ctx.ancestors(name), _PARAMETERS):
        view, method = f"`{name.id}.{way}`", f"`{call.func.attr}`"  # type: ignore[attr-defined]
        lost = f"does not change `{name.id}` on torchax, because {view} is a copy"
        if way == "data":
            lost = f"raises on torchax, because {view} is the parameter `{name.id}` itself"
        message = f"{method} on {view} {lost}"
        yield ctx.finding(call, message, _without_gradient(target, name, statement, ctx))


def _in_place(call: ast.AST) -> bool:
    """Whether the call is one of an in-place method, whose name ends in `_`."""
    match call:
        case ast.Call(func=ast.Attribute(attr=name)):
            return name.endswith("_") and not name.startswith("_")
    return False


def _is_own(ctx: Context) -> bool:
    """Whether the code is a method of a module, which writes to its own parameters."""
    function = ctx.scope.function
    outer = function.parent if function is not None else None
    if outer is None or not isinstance(outer.node, ast.ClassDef):
        return False
    return ctx.types.is_module_class(ctx.names.qualified_scope(outer))


def _states(target: ast.expr, name: ast.Name, ctx: Context) -> Iterator[ast.Call]:
    """The calls of `state_dict()` that return the tensor that is written to."""
    if isinstance(target, ast.Name):
        yield from (
            call
            for call in calls_looped_over(name, ctx.ancestors(name), frozenset({"state_dict"}))
            if not _arguments(call)
        )
        return
    match ctx.names.assigned_values(name):
        case [ast.Call(func=ast.Attribute(attr="state_dict")) as call] if not _arguments(call):
            yield call


def _arguments(call: ast.Call) -> bool:
    return bool(call.args or call.keywords)


def _kept(states: list[ast.Call], statement: ast.stmt, ctx: Context) -> Fix | None:
    if not ctx.trace.is_without_gradient(statement):
        return None
    edits = [ctx.rewrite.add_argument(call, "keep_vars=True") for call in states]
    return ctx.rewrite.fix(
        "pass `keep_vars=True` to `state_dict`, which then returns the parameters themselves", *edits
    )


def _shared(ctx: Context) -> Fix | None:
    title = f"add the runtime {DISTRIBUTION}, which makes this write change the parameters"
    return ctx.rewrite.runtime_fix(title)


def _without_gradient(target: ast.expr, name: ast.Name, statement: ast.stmt, ctx: Context) -> Fix | None:
    edits: list[Change] = [ctx.rewrite.reduce(target, name)]
    if not ctx.trace.is_without_gradient(statement):
        imports = ctx.rewrite.imports("import torch")
        if imports is None or ctx.source.shares_row(statement):
            return None
        edits += [ctx.rewrite.enclose(statement, "with torch.no_grad():"), *imports]
    title = f"write to `{name.id}` under `torch.no_grad()` instead of to `{ctx.text(target)}`"
    return ctx.rewrite.fix(title, *edits)
