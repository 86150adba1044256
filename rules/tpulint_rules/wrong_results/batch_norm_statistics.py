"""Batch normalization whose running statistics never update.

## What it does

In programs that train, the rule reports the following layers, but only the first one in each class or
function:

- `nn.BatchNorm1d`, `nn.BatchNorm2d`, `nn.BatchNorm3d` and `nn.SyncBatchNorm`;
- `nn.InstanceNorm` with `track_running_stats=True`.

For this rule, a program trains if it sets gradients to zero, or computes gradients with
`torchax.interop.jax_value_and_grad`.

The rule does not report:

- programs that call `loss.backward()`: in such programs, the fix of TPU611 (`backward-on-torchax`) makes the
  training step update the statistics;
- programs that move no tensor to a CUDA or torchax device;
- layers with `track_running_stats=False`.

## Why it matters on TPU

torchax's `F.batch_norm` normalizes with the statistics of the batch, but never updates `running_mean` and
`running_var`.
torchax raises no error, whether or not the code is jitted.

- `running_mean` stays at 0 and `running_var` at 1. After `model.eval()`, the layer normalizes with these
  initial values. Checkpoints store the initial values, too.
- torchax updates only one buffer of the layer: `num_batches_tracked`, which counts the batches.
- If the program loads statistics from a training run elsewhere, for example on a GPU, inference with these
  statistics is correct.

## Without a fix

Update the running statistics in a hook, and register the hook before you jit the model or the training step:

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

If the training step is jitted, the new statistics are lost when the step returns, because a jitted function
cannot write to its arguments.
In this case, pass the buffers to the step as an argument, and return them from the step:

```python
def loss_of(parameters, buffers, x, target):
    output = torch.func.functional_call(model, (parameters, buffers), (x,))
    return F.cross_entropy(output, target), buffers


step = torchax.interop.jax_jit(torchax.interop.jax_value_and_grad(loss_of, {"has_aux": True}))
(loss, buffers), gradients = step(parameters, buffers, x, target)
```

After training, load the returned buffers into the model with `model.load_state_dict(buffers, strict=False)`.

In a layer with `momentum=None`, the running statistics are the averages over all batches so far.
For such a layer, use `1 / num_batches_tracked` as `k` in the hook.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Context, Finding, Rule

rule = Rule("TPU612", "batch normalization whose running statistics never update", module=__name__, fix=None)

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
    calls = [found for name in _LAYERS for found in ctx.calls(name)]
    calls.sort(key=lambda found: (found[0].lineno, found[0].col_offset))
    seen: set[str] = set()
    for call, there in calls:
        place = there.scope.qualname.partition(".")[0]
        name = there.names.qualified(call.func) or ""
        if place in seen or not name.startswith("torch.nn.") or not _keeps_statistics(call, name):
            continue
        if not (ctx.program.is_trained and ctx.program.serves_device) or ctx.program.calls_backward:
            return
        seen.add(place)
        message = (
            "torchax never updates the running statistics of `{}`, so `eval()` uses their initial values"
        )
        yield there.finding(call, message.format(name.replace("torch.nn.", "nn.")))


def _keeps_statistics(call: ast.Call, name: str) -> bool:
    """Whether the layer keeps running statistics."""
    track = call.args[4] if len(call.args) > 4 else None
    track = next((item.value for item in call.keywords if item.arg == "track_running_stats"), track)
    if isinstance(track, ast.Constant):
        return bool(track.value)
    return _LAYERS.get(name.rpartition(".")[2], False)
