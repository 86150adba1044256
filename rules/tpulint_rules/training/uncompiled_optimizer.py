"""Optimizer whose step runs operation by operation.

## What it does

Flags `torch.optim.SGD`, `Adam`, `AdamW`, `Adamax`, `NAdam`, `ASGD`, `RMSprop`, `Rprop`, `Adadelta` and
`Adagrad` in programs that compute gradients and put something on a device.

## Why it matters on TPU

`Adamax`, and `Adam` with `amsgrad=True`, raise `TypeError: _aten_maximum() got an unexpected keyword argument
'out'`.
With the others nothing fails.
Torch's optimizers change each parameter by a dozen operations, and torchax sends each one to the device by
itself: for `Adam` with four parameters a step took 17 ms so, and 1.4 ms compiled (torch 2.13.0, torchax
0.0.14.dev20261026, jax 0.10.2, on a CPU host).

## Fix safety

Unsafe: `compiled(...)`, of the folder `torchax_training` that is written beside the program, lets JAX
compile the optimizer's own `step`.
Steps with a closure, or of an optimizer with hooks, run as ever; the learning rate may change at each step,
and so may the weight decay, the `betas` and the momentum, as `OneCycleLR` has it.
Optimizers that want them as numbers of Python are compiled anew for each, 16 times at most, or four for
learning rates, and run as ever after that.
Numbers agree to about 1e-6: the count of steps is a float on the device, where torch computes with Python's
numbers; `1 - beta ** step` keeps its digits.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding
from tpulint.knowledge.training import COMPILED, TRAINING, is_mark
from tpulint.rule import Context, Rule

rule = Rule(
    "TPU641", "optimizer whose step runs operation by operation", module=__name__, fix=Applicability.UNSAFE
)

#: Those that give the same numbers compiled: `RAdam` subtracts large ones, others compare the count of steps.
_OPTIMIZERS = frozenset(
    {"SGD", "Adam", "AdamW", "NAdam", "ASGD", "RMSprop", "Adadelta", "Adagrad", "Adamax", "Rprop"}
)


@rule.on(ast.Call, named=_OPTIMIZERS)
def optimizer(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.qualified_name(call.func) or ""
    if not name.startswith("torch.optim.") or not ctx.serves_device:
        return
    if not ctx.asks_gradients:
        return
    outer = ctx.parent(call)
    if isinstance(outer, ast.Call) and is_mark(ctx.qualified_name(outer.func), COMPILED):
        return
    imports = ctx.companion_import(TRAINING, "compiled")
    last = name.rpartition(".")[2]
    message = f"`{last}.step` sends each operation to the device by itself"
    start = ctx.span(call)
    fix = None
    if imports is not None:
        edits = (*imports, ctx.insert(start.start, "compiled("), ctx.insert(start.end, ")"))
        fix = ctx.fix("compile the step", *edits, applicability=Applicability.UNSAFE, companion=TRAINING)
    yield ctx.finding(call.func, message, fix)
