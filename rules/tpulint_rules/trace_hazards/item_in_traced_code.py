"""`.item()` or `.tolist()` in traced code.

## What it does

Reports `.item()` and `.tolist()` on tensors in traced code.
Traced code is code that JAX traces to compile it, such as a model's `forward`.
On CPU tensors, and in code that is not traced, `.item()` and `.tolist()` work and are not reported.

## Why it matters on TPU

While JAX traces a function, its tensors are tracers: they have a shape and a dtype, but no values.

- In jitted code, reading the value of a tensor raises `jax.errors.ConcretizationTypeError: Abstract tracer
  value encountered where concrete value is expected`.
- In code that is not jitted, `.item()` works, but each call waits for the device.

## Fix safety

The fix is unsafe, because the dtype of the result may change.
If a full reduction such as `x.sum().item()` is used only in arithmetic with tensors, the fix replaces
`.item()` with `.detach()`.
The expression then gives a zero-dimensional tensor instead of a Python scalar.
Like the Python scalar, the detached tensor has no gradient.

- The result is the same if the tensors in the arithmetic have the same dtype.
- The result differs if the tensors have different dtypes.
  For example, on torchax, bfloat16 times a zero-dimensional float32 tensor gives float32, but torch gives
  bfloat16.
  In a function that converts dtypes, the tensors may have different dtypes, so tpulint offers no fix there.

## Without a fix

Keep the computation in tensor operations, or return the tensor and call `.item()` outside of the traced
function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule, Several, Tensor, Unknown

rule = Rule("TPU301", "`.item()` or `.tolist()` in traced code", module=__name__, fix=Applicability.UNSAFE)


@rule.on(ast.Call, named={"item", "tolist"}, traced=True, handled="values of tensors in Python code")
def item(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or call.args or ctx.names.qualified(call.func) is not None:
        return
    receiver = ctx.types.of(call.func.value)
    if isinstance(receiver, Tensor) and receiver.is_host:
        return
    if not isinstance(receiver, Tensor) and not (
        isinstance(receiver, Unknown) and ctx.names.is_parameter(call.func.value)
    ):
        return
    if isinstance(receiver, Several) or ctx.types.sizes_a_factory(call):
        return
    name = call.func.attr
    message = f"`.{name}()` reads a tensor's value, which is not available while JAX traces the code"
    yield ctx.finding(call, message, _stay_tensor(call, receiver, ctx))


def _stay_tensor(call: ast.Call, receiver: object, ctx: Context) -> Fix | None:
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr != "item" or not isinstance(receiver, Tensor) or not receiver.scalar:
        return None
    if ctx.types.converts_dtypes() or not ctx.types.serves_as_tensor(call):
        return None
    tensor = call.func.value
    edit = ctx.rewrite.replace(call, ctx.rewrite.in_place_of_number(tensor, receiver))
    title = "remove `.item()` and compute with the zero-dimensional tensor instead of a Python scalar"
    return ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)
