"""Model evaluated in a loop without compilation.

## What it does

The rule reports loops that call a module, in programs that put tensors on a CUDA or torchax device and
compute no gradients.

The rule does not report:

- loops over layers, and loops in the `forward` of a module, because such loops are part of one call of the
  model;
- loops in a library that no script of the project imports.

## Why it matters on TPU

torchax runs one operation at a time (eagerly), and JAX compiles each operation again for each new shape.
If the length of the sequences grows in the loop, JAX compiles the operations again for each length.

The following processor times were measured on a CPU host, with torch 2.13.0, torchax 0.0.14.dev20261026 and
jax 0.10.2:

- A transformer with three layers took 3.5 s per generated word when it was not compiled, and 0.7 s per word
  when JAX compiled the whole model.
- A transformer with six layers took 0.16 s for a batch when it was not compiled, and 0.03 s when JAX compiled
  the model.
  The batch had the same sequence length as the previous batch.

## Fix safety

The fix replaces `torchax.enable_globally()` with `torchax_compat.enable()`, which enters the environment with
the runtime torchax-compat.
In a program that does not enter the environment yet, the fix of TPU001 (`missing-torchax-environment`) does
so.
The fix is unsafe, because the runtime also changes other functions of torch and torchax, and because compiled
modules may give slightly different results.

- The runtime compiles modules in `eval()` mode, and modules that are called inside `torch.no_grad()`.
  The runtime compiles a module once the calls of this module have taken one second in total.
- If a module cannot be traced, because it needs the value of a tensor, the runtime compiles the submodules of
  this module instead of the whole module.
- A compiled module still stores the values that its `forward` assigns to attributes and buffers.
- The runtime does not compile a module that has hooks, or that prints text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.runtime import DISTRIBUTION
from tpulint.rules_api import Applicability, Context, Finding, Rule, Severity

rule = Rule(
    "TPU645",
    "model evaluated in a loop without compilation",
    module=__name__,
    fix=Applicability.UNSAFE,
    severity=Severity.SLOW,
)

_OTHER_CODE = (ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@rule.on(ast.For)
def loop(node: ast.For, ctx: Context) -> Iterator[Finding]:
    names = {one.id for one in ast.walk(node.target) if isinstance(one, ast.Name)}
    yield from _evaluating(node.body, names, ctx)


@rule.on(ast.While)
def open_loop(node: ast.While, ctx: Context) -> Iterator[Finding]:
    yield from _evaluating(node.body, set(), ctx)


def _evaluating(body: list[ast.stmt], layers: set[str], ctx: Context) -> Iterator[Finding]:
    if not ctx.program.serves_device or ctx.trace.path is not None or _is_forward(body[0], ctx):
        return
    if any(True for name in ("backward", "grad") for _ in ctx.calls(name)):
        return  # what gradients are asked of is compiled by other means
    for call in _calls(body):
        if _is_whole(call.func, layers) and _is_module(call.func, ctx):
            if not ctx.program.is_of_script:
                return  # who uses a library has the program
            if ctx.program.runtime_handles("models called without gradients"):
                return
            title = f"add the runtime {DISTRIBUTION}, which compiles the model"
            fix = ctx.rewrite.runtime_fix(title)
            message = (
                f"torchax runs `{ctx.text(call.func)}(...)` one operation at a time in this loop, "
                "which is slow on TPU"
            )
            yield ctx.finding(call.func, message, fix)
            return


def _is_forward(statement: ast.stmt, ctx: Context) -> bool:
    """Whether the loop is inside a `forward`."""
    around = (one for one in ctx.ancestors(statement) if isinstance(one, ast.FunctionDef))
    return any(one.name == "forward" for one in around)


def _is_module(callee: ast.expr, ctx: Context) -> bool:
    """Whether the callee is a module, also one that callers pass in."""
    if isinstance(callee, ast.Name) and ctx.names.is_parameter(callee):
        return any(at.types.is_module(at.types.of(value)) for value, at in ctx.passed(callee))
    return ctx.types.is_module(ctx.types.of(callee))


def _is_whole(callee: ast.expr, layers: set[str]) -> bool:
    """Whether the callee is a whole model, not an attribute of `self` or a variable of the loop."""
    root = callee
    while isinstance(root, ast.Attribute):
        root = root.value
    return isinstance(root, ast.Name) and root.id not in layers and (root is callee or root.id != "self")


def _calls(body: list[ast.stmt]) -> Iterator[ast.Call]:
    """The calls that each iteration of a loop makes by itself."""
    waiting: list[ast.AST] = [*body]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.Call):
            yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, _OTHER_CODE)]
