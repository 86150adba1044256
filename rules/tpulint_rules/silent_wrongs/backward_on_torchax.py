"""Gradients by `backward()` on torchax.

## What it does

Flags `loss.backward()`, `torch.autograd.backward` and `torch.autograd.grad` in programs that put tensors on a
device or enter torchax.
What computes on the host alone is left alone: programs that name no device, host tensors, and
`torchax.disable_temporarily()`.

## Why it matters on TPU

Torch's autograd does not see through the operations that torchax takes over.
`F.linear` (and so `nn.Linear`), slices and other indexing, `einsum`, `F.pad`, `t.flatten()`, `max_pool2d`
and `.to(torch.bfloat16)` cut the graph.
Where the loss has another path, the gradient lacks what went through the cut one, silently.
Where it has none, `backward` raises `RuntimeError: element 0 of tensors does not require grad and does not
have a grad_fn`.
Convolutions raise `OperatorNotFound: Operator with name aten::convolution_backward has no lowering`, layer
norm `TypeError: _aten_native_layer_norm_backward() takes from 5 to 6 positional arguments`.

## Without a fix

Write the loss as a function of the parameters, and let JAX take the gradient.
Torch's optimizer stays: it finds the gradients in `p.grad`.

```python
parameters = dict(model.named_parameters())
buffers = dict(model.named_buffers())


def loss_of(parameters, buffers, x, target):
    output = torch.func.functional_call(model, (parameters, buffers), (x,))
    return F.cross_entropy(output, target)


step = torchax.interop.jax_jit(torchax.interop.jax_value_and_grad(loss_of))

for x, target in batches:
    loss, gradients = step(parameters, buffers, x, target)
    for name, parameter in model.named_parameters():
        parameter.grad = gradients[name]
    optimizer.step()
```

The gradient is that of the first argument.
`zero_grad` is no longer needed; to accumulate over several batches, add the gradients up.
`optax` and `torchax.train.make_train_step` take the optimizer's step into the compiled program, too.
A custom `torch.autograd.Function` and `torch.no_grad()` mean nothing to JAX; `.detach()` does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Finding
from tpulint.model.kinds import Tensor, Unknown
from tpulint.rule import Context, Rule

rule = Rule("TPU611", "gradients by `backward()` on torchax", module=__name__, fix=None)

_FUNCTIONS = frozenset({"torch.autograd.backward", "torch.autograd.grad"})


@rule.on(ast.Call, named={"backward", "grad"})
def backward(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.qualified_name(call.func)
    if name not in _FUNCTIONS and not (name is None and _is_method_of_tensor(call, ctx)):
        return
    if not ctx.serves_device or _is_on_host(call, ctx):
        return
    what = f"`{name}`" if name is not None else "`backward`"
    lost = "loses what goes through `nn.Linear`, slices and others on torchax"
    message = f"{what} {lost}: gradients are partial or none"
    yield ctx.finding(call, message)


def _is_method_of_tensor(call: ast.Call, ctx: Context) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "backward" or len(call.args) > 1:
        return False
    kind = ctx.kind(call.func.value)
    if isinstance(kind, Tensor):
        return not kind.is_host
    # A loss that a function at hand computes: what sets gradients to zero trains with torch.
    trains = bool(ctx.module.index.calls.get("zero_grad"))
    return isinstance(kind, Unknown) and not call.args and trains and ctx.imports("import torch") == ()


def _is_on_host(call: ast.Call, ctx: Context) -> bool:
    contexts = (
        item.context_expr
        for outer in ctx.ancestors(call)
        if isinstance(outer, ast.With)
        for item in outer.items
    )
    return any(
        isinstance(context, ast.Call) and ctx.qualified_name(context.func) == "torchax.disable_temporarily"
        for context in contexts
    )
