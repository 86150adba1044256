"""Library that chooses the device itself.

## What it does

Flags `Accelerator(...)` of accelerate and `Trainer(...)` of Lightning, which put models and batches where
they find a GPU; those that are told to stay on the CPU are left alone.

## Why it matters on TPU

They know nothing of torchax.
`accelerator.prepare(model)` leaves the model on the host, and so does `Trainer()`: the program trains there,
slowly, and nothing says so.
`Trainer(accelerator="gpu")` raises `MisconfigurationException: No supported gpu backend found!`, and
`Trainer(accelerator="tpu")` wants torch_xla: `ModuleNotFoundError: Requirement 'torch_xla>=1.13' not met`.
Measured with accelerate 1.15.0 and lightning 2.6.6 in the torchax environment.

## Without a fix

Write the loop that the library runs, which is short for one device; one process drives all chips of a host.

```python
device = torch.device("jax")
model = model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)  # or what `configure_optimizers()` gives
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x.to(device)), y.to(device))  # or `model.training_step((x, y), 0)`
    loss.backward()  # for `accelerator.backward(loss)`
    optimizer.step()
```

What such a loop needs on torchax beside that, the other rules find and write: TPU611 the gradients, TPU641
the optimizer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Finding
from tpulint.model.names.references import by_name
from tpulint.rule import Context, Rule

rule = Rule("TPU805", "library that chooses the device itself", module=__name__, fix=None)

_ACCELERATORS = frozenset({"accelerate.Accelerator", "accelerate.accelerator.Accelerator"})
_TRAINERS = frozenset(
    f"{package}.{name}"
    for package in ("lightning", "lightning.pytorch", "pytorch_lightning")
    for name in ("Trainer", "trainer.Trainer", "trainer.trainer.Trainer")
)


@rule.on(ast.Call, named={"Accelerator"})
def accelerator(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.qualified_name(call.func) not in _ACCELERATORS or _is_elsewhere(call, ctx):
        return
    if _constant(call, "cpu") is not True:
        message = "`Accelerator` knows nothing of torchax: what it prepares stays on the host, silently"
        yield ctx.finding(call, message)


@rule.on(ast.Call, named={"Trainer"})
def trainer(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.qualified_name(call.func) not in _TRAINERS or _is_elsewhere(call, ctx):
        return
    wanted = _constant(call, "accelerator")
    if wanted == "cpu":
        return
    if wanted in ("gpu", "cuda"):
        message = "`Trainer` finds no GPU on a TPU host, and raises"
    elif wanted == "tpu":
        message = "`Trainer` takes `torch_xla` for TPUs, not torchax"
    else:
        message = "`Trainer` knows nothing of torchax: it trains on the host, silently"
    yield ctx.finding(call, message)


def _is_elsewhere(call: ast.Call, ctx: Context) -> bool:
    """Whether a call is reached only where there is CUDA, or what it raises is caught."""
    return ctx.only_with_cuda(call) or ctx.is_caught(call)


def _constant(call: ast.Call, name: str) -> object:
    """The constant that a call gives for a keyword; None for none."""
    given = by_name(call, ()).get(name)
    return given.value if isinstance(given, ast.Constant) else None
