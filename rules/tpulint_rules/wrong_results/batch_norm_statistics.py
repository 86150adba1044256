"""Batch normalisation whose running statistics never update.

## What it does

Flags the first `nn.BatchNorm1d`, `2d` or `3d`, `nn.SyncBatchNorm`, or `nn.InstanceNorm` with
`track_running_stats=True`, in each class or function, where the program trains: it sets gradients to zero, or
takes them with `torchax.interop.jax_value_and_grad`.
A program that calls `loss.backward()` is left to TPU611, whose fix keeps the statistics.
Programs that put nothing on a device are left alone, and so is `track_running_stats=False`.

## Why it matters on TPU

Torchax's `F.batch_norm` computes the output from the batch, but does not write `running_mean` and
`running_var`, neither eagerly nor jitted, and says nothing.
They stay at 0 and 1, as `model.eval()` and the checkpoint then find them; `num_batches_tracked` counts on.
Inference with trained statistics is right.

## Without a fix

Let a hook write them, registered before anything is jitted:

```python
def keep_statistics(module, inputs):
    if module.training:
        x = inputs[0].detach()
        over = [dim for dim in range(x.ndim) if dim != 1]
        k = module.momentum
        module.running_mean.copy_(module.running_mean * (1 - k) + x.mean(over) * k)
        module.running_var.copy_(module.running_var * (1 - k) + x.var(over) * k)


for module in model.modules():
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        module.register_forward_pre_hook(keep_statistics)
```

A jitted function does not write to what it is given: take the buffers as an argument, and return them.

```python
def loss_of(parameters, buffers, x, target):
    output = torch.func.functional_call(model, (parameters, buffers), (x,))
    return F.cross_entropy(output, target), buffers


step = torchax.interop.jax_jit(torchax.interop.jax_value_and_grad(loss_of, {"has_aux": True}))
(loss, buffers), gradients = step(parameters, buffers, x, target)
```

After training, `model.load_state_dict(buffers, strict=False)` puts them into the model.
A layer whose `momentum` is None averages over all batches, and wants `1 / num_batches_tracked` in its place.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Finding
from tpulint.rule import Context, Rule

rule = Rule("TPU612", "batch normalisation whose running statistics never update", module=__name__, fix=None)

#: The layers, and whether they keep running statistics unless told otherwise.
_LAYERS = {
    "BatchNorm1d": True,
    "BatchNorm2d": True,
    "BatchNorm3d": True,
    "SyncBatchNorm": True,
    "InstanceNorm1d": False,
    "InstanceNorm2d": False,
    "InstanceNorm3d": False,
}


@rule.on(ast.Module)
def layers(_tree: ast.Module, ctx: Context) -> Iterator[Finding]:
    calls = sorted(
        (node.lineno, node.col_offset, node, scope)
        for name in _LAYERS
        for node, scope in ctx.module.index.calls.get(name, ())
        if isinstance(node, ast.Call)
    )
    seen: set[str] = set()
    for _, _, call, scope in calls:
        there = ctx.at(scope)
        place = scope.qualname.partition(".")[0]
        name = there.qualified_name(call.func) or ""
        if place in seen or not name.startswith("torch.nn.") or not _keeps_statistics(call, name):
            continue
        if (
            not (ctx.is_trained and ctx.serves_device)
            or ctx.module.name in ctx.module.project.programs.calling_backward
        ):
            return
        seen.add(place)
        message = (
            "torchax never writes the running statistics of `{}`: after training they are what they were"
        )
        yield there.finding(call, message.format(name.replace("torch.nn.", "nn.")))


def _keeps_statistics(call: ast.Call, name: str) -> bool:
    track = call.args[4] if len(call.args) > 4 else None
    track = next((item.value for item in call.keywords if item.arg == "track_running_stats"), track)
    if isinstance(track, ast.Constant):
        return bool(track.value)
    return _LAYERS.get(name.rpartition(".")[2], False)
