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

## Fix safety

Unsafe: accelerate reads the device from `ACCELERATE_TORCH_DEVICE`, which is set ahead of the `Accelerator`.
`accelerator.prepare`, `backward`, `accumulate`, `clip_grad_norm_`, `gather_for_metrics`, `unwrap_model` and
`save_state` are right then with what TPU611 writes; a BERT trained so as on a CPU, to the last digit printed.
Half precision in 16 bits with a scaler, `mixed_precision="fp16"`, which accelerate has for devices that it
knows alone, becomes `"bf16"`.
What that enters casts nothing on torchax: the program computes in 32 bits.
With the option that keeps the GPU, both are so where there is no CUDA.

## Without a fix

For Lightning, write the loop that it runs, which is short for one device; one process drives all chips of a
host.

```python
device = torch.device("jax")
model = model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)  # what `configure_optimizers()` gives
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x.to(device)), y.to(device))  # what `training_step` does
    loss.backward()
    optimizer.step()
```

What such a loop needs on torchax beside that, the other rules find and write: TPU611 the gradients, TPU641
the optimizer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix
from tpulint.knowledge.training import ACCELERATE_DEVICE
from tpulint.model.names.references import by_name
from tpulint.model.project.takers import is_accelerator
from tpulint.rule import Context, Rule

rule = Rule("TPU805", "library that chooses the device itself", module=__name__, fix=Applicability.UNSAFE)

_TRAINERS = frozenset(
    f"{package}.{name}"
    for package in ("lightning", "lightning.pytorch", "pytorch_lightning")
    for name in ("Trainer", "trainer.Trainer", "trainer.trainer.Trainer")
)


@rule.on(ast.Call, named={"Accelerator"})
def accelerator(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not is_accelerator(call, ctx.qualified_name(call.func)) or _is_elsewhere(call, ctx):
        return
    if ACCELERATE_DEVICE not in ctx.module.index.texts:
        message = "`Accelerator` knows nothing of torchax: what it prepares stays on the host, silently"
        yield ctx.finding(call, message, _told(call, ctx))


def _told(call: ast.Call, ctx: Context) -> Fix | None:
    """Accelerate is told the device ahead of the call."""
    statement, source = ctx.statement(call), ctx.module.source
    is_kept = ctx.module.project.keeps_gpu
    imports = ctx.imports("import os", *(["import torch"] if is_kept else []))
    if imports is None or source.ahead_of(statement).strip():
        return None
    gap = f"{source.newline}{source.margin(statement)}"
    lines = [f'os.environ["{ACCELERATE_DEVICE}"] = "jax"']
    if is_kept:
        lines = ["if not torch.cuda.is_available():", f"    {lines[0]}"]
    edits = [ctx.insert(ctx.span(statement).start, "".join(f"{line}{gap}" for line in lines))]
    precision = by_name(call, ()).get("mixed_precision")
    if isinstance(precision, ast.Constant) and precision.value == "fp16":
        either = f'"bf16" if "{ACCELERATE_DEVICE}" in os.environ else "fp16"'
        instead = either if is_kept else ctx.quoted("bf16", precision)
        edits.append(ctx.replace(precision, instead))
    title = "tell accelerate the device"
    return ctx.fix(title, *imports, *edits, applicability=Applicability.UNSAFE)


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
