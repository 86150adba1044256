"""Library that selects the device itself (Accelerate, Lightning and others).

## What it does

Reports:

- `Accelerator(...)` and `PartialState(...)` of Accelerate, and `Trainer(...)` and `Fabric(...)` of Lightning.
  Accelerate and Lightning look for a GPU, and move models and batches to it;
- `TrainingArguments(...)` of transformers, classes that are derived from it, and `HfArgumentParser` with such
  a class. `Trainer` of transformers computes on the device that `TrainingArguments` chooses;
- functions of libraries that return the device, such as `torch_geometric.device("auto")`,
  `ignite.distributed.device()`, `get_device()` of stable_baselines3 and `select_device()` of ultralytics;
- other functions of libraries that have a name such as `get_device`, are called with `"auto"`, and whose
  result is used as a device.

Calls that request the CPU are not reported.

## Why it matters on TPU

Accelerate and Lightning do not know torchax:

- `accelerator.prepare(model)`, and `Trainer` of Lightning and of transformers, leave the model on the host.
  The program then trains on the host, slowly, without an error.
- `Trainer(accelerator="gpu")` raises `MisconfigurationException: No supported gpu backend found!`.
- `Trainer(accelerator="tpu")` needs torch_xla, and raises `ModuleNotFoundError: Requirement 'torch_xla>=1.13'
  not met`.

The behavior of the libraries was measured with accelerate 1.15.0, lightning 2.6.6 and transformers 5.24.0 in
the torchax environment.

- Functions that return the device return the CPU, without an error, because they find no GPU.

## Fix safety

The fix for a function that returns the device is unsafe, because the program then uses another device.
The fix replaces the call with `torch.device("jax")`, or with `"jax"` if the function returns a string.

The fix for Accelerate is unsafe, because the program then trains on another device and may compute with
another precision.
Accelerate reads the device from the environment variable `ACCELERATE_TORCH_DEVICE`.
The fix sets `ACCELERATE_TORCH_DEVICE` before the program creates the `Accelerator`.

- After this fix and the fix of TPU611 (`backward-on-torchax`), the methods `prepare`, `backward`,
  `accumulate`, `clip_grad_norm_`, `gather_for_metrics`, `unwrap_model` and `save_state` of the `Accelerator`
  work.
  In a test, the losses of a BERT model on torchax were equal to those on a CPU, to the last printed digit.
- The same holds for `TrainingArguments`. The runtime torchax-compat then compiles the loss and the optimizer
  of `Trainer`: a small Llama trained with the losses of the CPU, also with evaluation, and with accumulated
  gradients.
- With both libraries, each device of the host is a process of the original program: the fix of TPU001
  (`missing-torchax-environment`) adds `torchax_compat.distributed.one_rank_per_device()`.
  On two and four devices, the losses, the gathered metrics and the gradient norms are those of two and four
  processes with gloo, in both libraries.
- The fix replaces `mixed_precision="fp16"` with `"bf16"`, because `"fp16"` needs a gradient scaler, which
  Accelerate does not create for the torchax device.
  On torchax, `"bf16"` converts nothing: the program computes in 32 bits.
- `Trainer` of Lightning gets `accelerator="jax"`, which is an accelerator of the runtime torchax-compat.
  The runtime compiles `training_step` and the optimizers.
  A model with batch normalization, metrics of torchmetrics, a scheduler, clipping and accumulated gradients
  trained with the losses of the CPU, and with the same logged values.
  With `precision="bf16-mixed"`, they agree up to the rounding of bfloat16.
  A step that logs Python numbers runs call by call.
  Manual optimization (`automatic_optimization = False`) raises `NotImplementedError`.
- With `--keep-gpu`, the fixed program checks for CUDA. The fixed program sets the environment variable and
  uses `"bf16"` only if CUDA is not available.

## Without a fix

A function that returns the device has no fix if its arguments are not constants, because the user may request
the CPU. Use `torch.device("jax")` unless the user does.

`Fabric` of Lightning has no fix.
A `Trainer` of Lightning for several devices, such as with `strategy="ddp"` or `devices=4`, has no fix either:
on one chip, it would train with smaller batches.
Replace them with a training loop of your own.
With JAX, one process uses all chips of a host, so the loop needs no process group.
A loop for one device is short:

```python
device = torch.device("jax")
model = model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)  # as in `configure_optimizers()`
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x.to(device)), y.to(device))  # as in `training_step`
    loss.backward()
    optimizer.step()
```

tpulint can then fix the rest of this training loop.
The fix of TPU611 makes the gradients of the loop work on torchax.
The fix of TPU641 (`uncompiled-optimizer`) compiles the optimizer of the loop.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.libraries import DEVICE_FUNCTIONS, DEVICE_HOLDERS
from tpulint.knowledge.tracing import LIBRARIES, is_device_word
from tpulint.knowledge.training import ACCELERATE_DEVICE, TRAINING_ARGUMENTS
from tpulint.rules_api import Applicability, Context, Effort, Finding, Fix, Rule
from tpulint.rules_api.syntax import arguments_by_name

rule = Rule(
    "TPU805",
    "library that selects the device itself (Accelerate, Lightning and others)",
    module=__name__,
    fix=Applicability.UNSAFE,
    effort=Effort.HOURS,
)

_TRAINERS = frozenset(
    f"{package}.{name}"
    for package in ("lightning", "lightning.pytorch", "pytorch_lightning")
    for name in ("Trainer", "trainer.Trainer", "trainer.trainer.Trainer")
)
#: Arguments of Lightning's `Trainer`, with the values with which it may use one device.
_ONE_DEVICE: dict[str, tuple[object, ...]] = {
    "strategy": ("auto",),
    "devices": ("auto", 1, "1"),
    "num_nodes": (1,),
}
_PARSERS = frozenset({"transformers.HfArgumentParser", "transformers.hf_argparser.HfArgumentParser"})


@rule.on(ast.Call, named={"Accelerator"})
def accelerator(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not ctx.program.creates_accelerator(call) or _is_elsewhere(call, ctx):
        return
    if not ctx.names.has_string(ACCELERATE_DEVICE):
        message = "`Accelerator` does not support torchax: the model stays on the CPU, without an error"
        yield ctx.finding(call, message, _told(call, ctx))


def _told(call: ast.Call, ctx: Context) -> Fix | None:
    """The fix that passes the device to Accelerate before the call."""
    statement, source = ctx.statement(call), ctx.source
    is_kept = ctx.program.keeps_cuda
    imports = ctx.rewrite.imports("import os", *(["import torch"] if is_kept else []))
    if imports is None or source.ahead_of(statement).strip():
        return None
    lines = [f'os.environ["{ACCELERATE_DEVICE}"] = "jax"']
    if is_kept:
        lines = ["if not torch.cuda.is_available():", f"    {lines[0]}"]
    edits = [ctx.rewrite.insert_before(statement, ctx.rewrite.lines(statement, *lines))]
    precision = arguments_by_name(call, ()).get("mixed_precision")
    if isinstance(precision, ast.Constant) and precision.value == "fp16":
        either = f'"bf16" if "{ACCELERATE_DEVICE}" in os.environ else "fp16"'
        instead = either if is_kept else ctx.rewrite.quoted("bf16", precision)
        edits.append(ctx.rewrite.replace(precision, instead))
    title = f'set `{ACCELERATE_DEVICE}` to `"jax"`, so that the library uses the torchax device'
    return ctx.rewrite.fix(title, *imports, *edits, applicability=Applicability.UNSAFE)


@rule.on(ast.Call, named=lambda name: name.endswith(("Arguments", "Args", "HfArgumentParser")))
def training_arguments(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    made = ctx.names.qualified(call.func)
    if made is None or _is_elsewhere(call, ctx) or ctx.names.has_string(ACCELERATE_DEVICE):
        return
    if _constant(call, "use_cpu") is True or _constant(call, "no_cuda") is True:
        return
    classes = [made]
    if made in _PARSERS:
        nodes = (node for argument in call.args for node in ast.walk(argument) if isinstance(node, ast.expr))
        classes = [name for node in nodes if (name := ctx.names.qualified(node)) is not None]
    if any(not TRAINING_ARGUMENTS.isdisjoint((name, *ctx.types.ancestors(name))) for name in classes):
        message = "`Trainer` of transformers does not look for a TPU: it trains on the CPU, without an error"
        yield ctx.finding(call, message, _told(call, ctx))


@rule.on(ast.Call, named=is_device_word)
def device_function(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name is None or _is_elsewhere(call, ctx) or ctx.program.defines(name):
        return
    given = [*call.args, *(word.value for word in call.keywords)]
    constants = [one.value for one in given if isinstance(one, ast.Constant)]
    if any(str(one).startswith("cpu") for one in constants):
        return
    package, last = name.partition(".")[0], name.rpartition(".")[2]
    is_text = DEVICE_FUNCTIONS.get((package, last))
    if is_text is None:
        if package in LIBRARIES or "auto" not in constants:
            return
        if not ctx.devices.becomes_device(call, itself=True):
            return
        is_text = False
    fix = _as_device(call, ctx, is_text=is_text) if len(constants) == len(given) else None
    message = f"`{ctx.text(call.func)}` finds no GPU on a TPU host, so the program silently stays on the CPU"
    yield ctx.finding(call, message, fix)


@rule.on(ast.Call, named={one.rpartition(".")[2] for one in DEVICE_HOLDERS})
def device_holder(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) not in DEVICE_HOLDERS or _is_elsewhere(call, ctx):
        return
    if _constant(call, "accelerator") == "cpu" or _constant(call, "cpu") is True:
        return
    if ctx.names.has_string(ACCELERATE_DEVICE):
        return
    outer = ctx.parent(call)
    fix = None
    if isinstance(outer, ast.Attribute) and outer.attr == "device":
        fix = _as_device(outer, ctx, is_text=False)
    message = f"`{ctx.text(call.func)}` does not know the torchax device, so it chooses the CPU or raises"
    yield ctx.finding(call, message, fix)


def _as_device(node: ast.expr, ctx: Context, *, is_text: bool) -> Fix | None:
    """The fix that uses the torchax device instead of the one that the library chooses."""
    device = '"jax"' if is_text else 'torch.device("jax")'
    needed = [] if is_text else ["import torch", *(["import torchax"] if ctx.program.is_import_time else [])]
    imports = ctx.rewrite.imports(*needed)
    if imports is None:
        return None
    title = f"replace `{ctx.text(node)}` with the torchax device `{device}`"
    return ctx.rewrite.fix(
        title, ctx.rewrite.replace(node, device), *imports, applicability=Applicability.UNSAFE
    )


@rule.on(ast.Call, named={"Trainer"})
def trainer(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) not in _TRAINERS or _is_elsewhere(call, ctx):
        return
    wanted = _constant(call, "accelerator")
    if wanted in ("cpu", "jax"):
        return
    if wanted in ("gpu", "cuda"):
        message = "`Trainer` of Lightning finds no GPU on a TPU host and raises"
    elif wanted == "tpu":
        message = "`Trainer` of Lightning needs `torch_xla` on TPU, not torchax"
    else:
        message = "`Trainer` of Lightning trains on the CPU, without an error"
    yield ctx.finding(call, message, _on_jax(call, ctx))


def _on_jax(call: ast.Call, ctx: Context) -> Fix | None:
    """The fix that passes the accelerator of the runtime to a `Trainer` for one device."""
    given = arguments_by_name(call, ())
    if call.args or any(word.arg is None for word in call.keywords):
        return None
    for name, allowed in _ONE_DEVICE.items():
        if name in given and _constant(call, name) not in allowed:
            return None
    accelerator = given.get("accelerator")
    if accelerator is not None and not isinstance(accelerator, ast.Constant):
        return None
    is_kept = ctx.program.keeps_cuda
    imports = ctx.rewrite.imports(*(["import torch"] if is_kept else []))
    if imports is None:
        return None
    device = ctx.rewrite.quoted("jax", accelerator or call)
    if is_kept:
        gpu = ctx.rewrite.quoted("gpu", accelerator or call)
        device = f"{gpu} if torch.cuda.is_available() else {device}"
    if accelerator is not None:
        edit = ctx.rewrite.replace(accelerator, device)
    else:
        edit = ctx.rewrite.add_argument(call, f"accelerator={device}")
    title = 'pass `accelerator="jax"` of the runtime, which trains on one chip'
    return ctx.rewrite.fix(title, *imports, edit, applicability=Applicability.UNSAFE)


def _is_elsewhere(call: ast.Call, ctx: Context) -> bool:
    """Whether the call runs only with CUDA, or its error is caught."""
    return ctx.devices.only_with_cuda(call) or ctx.devices.is_caught(call)


def _constant(call: ast.Call, name: str) -> object:
    """The constant that a keyword argument is, if it is one."""
    given = arguments_by_name(call, ()).get(name)
    return given.value if isinstance(given, ast.Constant) else None
