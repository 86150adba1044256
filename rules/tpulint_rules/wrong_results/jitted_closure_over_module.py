"""Jitted function that closes over a module.

## What it does

The rule reports a function or lambda that is jitted with `torchax.interop.jax_jit` or `torchax.compile`, if
the function calls a module that is not one of its arguments.
The function may be passed to `jax_jit` or `torchax.compile`, or may be decorated with one of them.
The rule also reports methods of a module that are passed to `jax_jit` or `torchax.compile`, such as
`jax_jit(model.forward)`.

## Why it matters on TPU

All values that a jitted function reads from its enclosing scope, such as the weights of a module, become
constants of the compiled program.

- After `optimizer.step()`, `load_state_dict` or any other change of the weights, the compiled program still
  computes with the old weights, without an error.
- The device holds the weights twice: as constants of the compiled program, and as parameters of the module.

## Without a fix

Compile the module itself: `compiled = torchax.compile(model)`.
The compiled module passes its weights as arguments at each call, so updates of the weights take effect.

If the function does more than call the module, pass the weights to the function as arguments:

```python
@torchax.interop.jax_jit
def step(parameters, buffers, x):
    return torch.func.functional_call(model, (parameters, buffers), (x,)).softmax(-1)


y = step(dict(model.named_parameters()), dict(model.named_buffers()), x)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Context, Finding, FunctionNode, Instance, Rule, Scope

rule = Rule("TPU616", "jitted function that closes over a module", module=__name__, fix=None)

_ENTRIES = frozenset({"torchax.compile", "torchax.interop.jax_jit"})
_STALE = (
    "the compiled function holds the weights of `{}` as constants, and ignores later updates of the weights"
)


@rule.on(ast.Call, named={"compile", "jax_jit"})
def jitted(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) not in _ENTRIES or not call.args:
        return
    given = call.args[0]
    if isinstance(given, ast.Attribute):
        owner = ctx.types.of(given.value)
        if not isinstance(owner, Instance) or not ctx.types.is_module(owner):
            return
        if given.attr == "forward" or ctx.types.defines_method(owner.cls, given.attr):
            yield ctx.finding(call, _STALE.format(ctx.text(given.value)))
        return
    function = _function(given, ctx)
    module = _called_module(function, ctx) if function is not None else None
    if module is not None:
        yield ctx.finding(call, _STALE.format(module))


@rule.on(ast.Module)
def decorated(_tree: ast.Module, ctx: Context) -> Iterator[Finding]:
    for function in ctx.names.functions:
        if isinstance(function.node, ast.Lambda) or function.parent is None:
            continue
        around = ctx.at(function.parent)
        for decorator in getattr(function.node, "decorator_list", ()):
            if around.names.qualified(decorator) in _ENTRIES:
                module = _called_module(function, ctx)
                if module is not None:
                    yield around.finding(decorator, _STALE.format(module))


def _function(given: ast.expr, ctx: Context) -> Scope | None:
    """The function that the argument names, or the lambda that it is; None for other arguments."""
    node: ast.AST = given
    if isinstance(given, ast.Name):
        found = ctx.names.lookup(given.id)
        if found is None or len(found[1]) != 1 or not isinstance(found[1][0].node, FunctionNode):
            return None
        node = found[1][0].node
    return ctx.names.function(node)


def _called_module(function: Scope, ctx: Context) -> str | None:
    """Whether the function calls a module that it does not receive as an argument; its name, or None."""
    inside = ctx.at(function)
    for node in ast.walk(function.node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            taken = node.func.id in function.bindings
            if not taken and inside.types.is_module(inside.types.of(node.func)):
                return node.func.id
    return None
