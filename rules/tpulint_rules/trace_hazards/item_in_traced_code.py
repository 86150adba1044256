"""`.item()` or `.tolist()` in traced code.

## What it does

Flags `.item()` and `.tolist()` on tensors in code that tracing reaches.
On the host, where they are correct, they are left alone.

## Why it matters on TPU

While tracing, a tensor is a tracer without a value.
Asking for the value raises `jax.errors.ConcretizationTypeError: Abstract tracer value encountered where
concrete value is expected`.
Outside of `jit` it works, but waits for the device each time.

## Fix safety

Unsafe: `.item()` on a full reduction becomes `.detach()` where its number only meets tensors in arithmetic.
A tensor without dimensions then takes the number's place, and has no gradient, either.
The result is the same as long as both tensors have one dtype: on torchax, bfloat16 times a float32
tensor without dimensions is float32, where torch gives bfloat16; so there is no fix in a function that
converts dtypes.

## Without a fix

Keep the computation in tensor operations, or return the tensor and read it outside of the traced
function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix
from tpulint.model.values.kinds import Several, Tensor, Unknown
from tpulint.model.values.uses import converts_dtypes, in_place_of_number, serves_as_tensor
from tpulint.rule import Context, Rule

rule = Rule("TPU301", "`.item()` or `.tolist()` in traced code", module=__name__, fix=Applicability.UNSAFE)


@rule.on(ast.Call, named={"item", "tolist"}, traced=True)
def item(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or call.args or ctx.qualified_name(call.func) is not None:
        return
    receiver = ctx.kind(call.func.value)
    if isinstance(receiver, Tensor) and receiver.is_host:
        return
    if not isinstance(receiver, Tensor) and not (
        isinstance(receiver, Unknown) and ctx.is_parameter(call.func.value)
    ):
        return
    if isinstance(receiver, Several) or ctx.sizes_a_factory(call):
        return
    name = call.func.attr
    message = f"`.{name}()` needs the tensor's value, which a tracer does not have"
    yield ctx.finding(call, message, _stay_tensor(call, receiver, ctx))


def _stay_tensor(call: ast.Call, receiver: object, ctx: Context) -> Fix | None:
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr != "item" or not isinstance(receiver, Tensor) or not receiver.scalar:
        return None
    if converts_dtypes(ctx.scope) or not serves_as_tensor(ctx.module, call, ctx.scope):
        return None
    tensor = call.func.value
    edit = ctx.replace(call, in_place_of_number(tensor, ctx.text(tensor), receiver))
    return ctx.fix("go on with the tensor itself", edit, applicability=Applicability.UNSAFE)
