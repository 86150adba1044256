"""Loop that updates weights without compilation.

## What it does

The rule checks programs that compute gradients and put tensors on a CUDA or torchax device.
In these programs, the rule reports loops that change the weights of modules, and that need no gradients to do
so.
Examples are loops that average weights, let a target network follow another network, or clamp weights.

The rule does not report:

- loops that also do something else;
- loops that read `p.grad`;
- loops in code that sets up a module;
- loops in a function that runs only once.

## Why it matters on TPU

The loop updates each parameter with a few operations, and torchax runs one operation at a time (eagerly).
In a program whose compiled training step takes 0.5 ms of processor time, averaging the weights without
compilation took another 2 ms.
These times were measured on a CPU host (torch 2.13.0, torchax 0.0.14.dev20261026, jax 0.10.2).

## Fix safety

The fix compiles the loop with the decorator `@compile_update`.
The fix is unsafe, because JAX compiles the loop as a whole, so the results may differ slightly from the
results without compilation.
`@compile_update` is part of the runtime torchax-compat.

- If a function only updates weights, the fix decorates this function.
  If the function also does something else, the fix moves the loop into a new function that is decorated with
  `@compile_update`.
- JAX compiles the decorated function as a whole, for the weights and scalars with which it is called.
  A scalar that keeps changing, such as a decay, becomes an input of the compiled function.
- The decorated function runs inside `torch.no_grad()`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.runtime import COMPILE_UPDATE, DISTRIBUTION
from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Rule
from tpulint.rules_api.results import Region

rule = Rule(
    "TPU646",
    "loop that updates weights without compilation",
    module=__name__,
    former=("uncompiled-update",),
    fix=Applicability.UNSAFE,
)

_SETS_UP = ("__init__", "__post_init__", "reset", "init", "_init", "setup", "build")


@rule.on(ast.For)
def loop(node: ast.For, ctx: Context) -> Iterator[Finding]:
    if not ctx.program.serves_device or not ctx.program.asks_gradients:
        return
    function = ctx.scope.function
    if function is not None and (function.name.startswith(_SETS_UP) or _is_compiled(ctx)):
        return
    found = ctx.program.weight_update(node)
    if (
        found is None
        or ctx.devices.only_with_cuda(node)
        or any(_is_update(o, ctx) for o in ctx.ancestors(node))
    ):
        return
    whole = _only_updates(ctx)
    if not whole and not _is_repeated(node, ctx):
        return
    if node is not next(
        filter(ctx.program.computes_weights, whole), node
    ) or not ctx.program.computes_weights(node):
        return  # of a function that does nothing else the first one is told
    fix = _marked(ctx) if whole else _moved(found, ctx)
    message = "torchax runs the weight updates of this loop one operation at a time, which is slow on TPU"
    yield ctx.finding_at(ctx.span(node.iter), message, fix)


def _is_repeated(node: ast.For, ctx: Context) -> bool:
    """Whether the loop runs often (inside another loop, in a method, or beside training)."""
    function = ctx.scope.function
    if any(isinstance(outer, ast.For | ast.While) for outer in ctx.ancestors(node)):
        return True
    if function is None or ctx.names.method is not None:
        return function is not None
    return any(at.scope.function is function for name in ("backward", "step") for _, at in ctx.calls(name))


def _is_update(node: ast.AST, ctx: Context) -> bool:
    """Whether an outer loop is such an update, too."""
    return isinstance(node, ast.For) and ctx.program.weight_update(node) is not None


def _is_compiled(ctx: Context) -> bool:
    """Whether the function, or the `forward` that calls it, is already compiled."""
    function = ctx.scope.function
    assert function is not None
    if ctx.trace.is_differentiable(function) or ctx.names.has_runtime_decorator(function, COMPILE_UPDATE):
        return True
    callers = (at.scope.function for _, at in ctx.calls(function.name))
    return function.name == "forward" or any(one is not None and one.name == "forward" for one in callers)


def _only_updates(ctx: Context) -> list[ast.For]:
    """The loops of a function that only updates weights."""
    function = ctx.scope.function
    if function is None or not isinstance(function.node, ast.FunctionDef):
        return []
    loops = [one for one in ast.walk(function.node) if isinstance(one, ast.For) and _is_update(one, ctx)]
    return loops if ctx.program.only_updates_weights(function, loops) else []


def _marked(ctx: Context) -> Fix | None:
    """The fix that decorates the function."""
    imports = ctx.rewrite.runtime_import("compile_update")
    definition = ctx.scope.function.node if ctx.scope.function is not None else None
    if imports is None or not isinstance(definition, ast.FunctionDef):
        return None
    edits: list[Change] = [*imports, ctx.rewrite.add_decorator(definition, "compile_update")]
    return ctx.rewrite.fix(
        f"decorate `{definition.name}` with `@compile_update` of the runtime {DISTRIBUTION}",
        *edits,
        applicability=Applicability.UNSAFE,
        serves_cuda=True,
    )


def _moved(found: Region, ctx: Context) -> Fix | None:
    """The fix that moves the loop into a decorated function."""
    imports = ctx.rewrite.runtime_import("compile_update")
    if imports is None:
        return None
    name = ctx.program.training_steps.name_for(found, "update_weights", ctx.scope)
    made = ctx.rewrite.outline(found, name, "compile_update")
    if made is None:
        return None
    title = "move the loop into a new function with `@compile_update` of the runtime torchax-compat"
    return ctx.rewrite.fix(title, *imports, *made, applicability=Applicability.UNSAFE, serves_cuda=True)
