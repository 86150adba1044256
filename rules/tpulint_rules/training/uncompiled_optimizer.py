"""Optimizer whose step is not compiled.

## What it does

The rule reports `torch.optim.SGD`, `Adam`, `AdamW`, `Adamax`, `NAdam`, `ASGD`, `RMSprop`, `Rprop`, `Adadelta`
and `Adagrad`, in programs that compute gradients and put tensors on a CUDA or torchax device.

The rule also reports calls that may create one of these optimizers: `getattr(torch.optim, name)(...)`, calls
of a class from a table of optimizers, and calls of a variable to which several branches assign different
optimizer classes.

## Why it matters on TPU

- `Adamax`, and `Adam` with `amsgrad=True`, raise
  `TypeError: _aten_maximum() got an unexpected keyword argument 'out'`.
- The other optimizers do not raise, but they are slow.
  An optimizer of PyTorch updates each parameter with about a dozen operations, and torchax runs one operation
  at a time (eagerly).
  A step of `Adam` with four parameters took 17 ms without compilation, and 1.4 ms when JAX compiled the step
  (torch 2.13.0, torchax 0.0.14.dev20261026, jax 0.10.2, on a CPU host).

## Fix safety

The fix wraps the optimizer in `compile_optimizer(...)`, so that JAX compiles the `step` of the optimizer.
The fix is unsafe, because results may differ slightly.
`compile_optimizer` is part of the runtime torchax-compat.

- The results of the compiled step agree with those of the original step to about 1e-6.
- The compiled step counts steps in a float on the device, while PyTorch uses a Python scalar.
  The bias correction `1 - beta ** step` of Adam is still as precise as in PyTorch.
- The learning rate, the weight decay, the `betas` and the momentum may change at each step, as with
  `OneCycleLR`.
- Some optimizers need the learning rate, the weight decay, the `betas` or the momentum as a Python scalar, so
  JAX compiles the step again for each new value.
  JAX compiles the step at most 16 times for new values of these scalars, but at most four times for new
  learning rates.
  After these compilations, a step with a new value runs without compilation.
- The runtime does not compile a step with a closure, or the step of an optimizer with hooks.
- If a program selects an optimizer by name, the name may be that of a class that this rule does not report;
  `compile_optimizer` does not change such an optimizer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.runtime import COMPILE_OPTIMIZER, DISTRIBUTION, is_runtime_function
from tpulint.rules_api import Applicability, Change, Context, Finding, Rule, Severity

rule = Rule(
    "TPU641",
    "optimizer whose step is not compiled",
    module=__name__,
    fix=Applicability.UNSAFE,
    severity=Severity.SLOW,
)

#: Those that give the same numbers compiled: `RAdam` subtracts large ones, others compare the count of steps.
_OPTIMIZERS = frozenset(
    {"SGD", "Adam", "AdamW", "NAdam", "ASGD", "RMSprop", "Adadelta", "Adagrad", "Adamax", "Rprop"}
)


@rule.on(ast.Call, named=_OPTIMIZERS)
def optimizer(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if _is_optimizer(call.func, ctx):
        yield from _uncompiled(call, ctx)


@rule.on(ast.Call, where=lambda call: isinstance(call.func, ast.Call | ast.Subscript))
def looked_up(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if _is_optimizer(call.func, ctx):
        yield from _uncompiled(call, ctx)


@rule.on(ast.Call, named={"getattr"})
def found_by_name(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    outer = ctx.parent(call)
    if not isinstance(outer, ast.Assign) or not _is_optimizer(call, ctx):
        return
    for name in (target for target in outer.targets if isinstance(target, ast.Name)):
        for use in ctx.names.loads(name.id):
            made = ctx.parent(use)
            if isinstance(made, ast.Call) and made.func is use:
                yield from _uncompiled(made, ctx)


def _is_optimizer(node: ast.expr, ctx: Context) -> bool:
    """Whether the class may be an optimizer of torch whose step can be compiled."""
    if (name := ctx.names.qualified(node)) is not None:
        return name.startswith("torch.optim.") and name.rpartition(".")[2] in _OPTIMIZERS
    match node:
        case ast.Name():
            return any(_is_optimizer(value, ctx) for value in ctx.names.assigned_values(node))
        case ast.IfExp():
            return _is_optimizer(node.body, ctx) or _is_optimizer(node.orelse, ctx)
        case ast.Subscript():
            return any(_is_optimizer(value, ctx) for value in _entries(node.value, ctx))
        case ast.Call(func=ast.Attribute(attr="get", value=table)):
            return any(_is_optimizer(value, ctx) for value in _entries(table, ctx))
        case ast.Call(func=ast.Name(id="getattr"), args=[place, *_]):
            return ctx.names.qualified(place) == "torch.optim"
    return False


def _entries(table: ast.expr, ctx: Context) -> Iterator[ast.expr]:
    for value in [table] if isinstance(table, ast.Dict) else ctx.names.assigned_values(table):
        if isinstance(value, ast.Dict):
            yield from value.values


def _uncompiled(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not ctx.program.serves_device or not ctx.program.asks_gradients:
        return
    outer = ctx.parent(call)
    if isinstance(outer, ast.Call) and is_runtime_function(
        ctx.names.qualified(outer.func), COMPILE_OPTIMIZER
    ):
        return
    imports = ctx.rewrite.runtime_import("compile_optimizer")
    name = ctx.names.qualified(call.func)
    step = f"`{name.rpartition('.')[2]}.step`" if name else "the `step` of this optimizer"
    message = f"torchax runs {step} one operation at a time, which is slow on TPU"
    fix = None
    if imports is not None:
        edits: list[Change] = [*imports, ctx.rewrite.wrap(call, "compile_optimizer(", ")")]
        fix = ctx.rewrite.fix(
            f"compile the optimizer step with `compile_optimizer(...)` of the runtime {DISTRIBUTION}",
            *edits,
            applicability=Applicability.UNSAFE,
            serves_cuda=True,
        )
    yield ctx.finding(call.func, message, fix)
