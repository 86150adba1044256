"""Copy of a tensor to the host in traced code.

## What it does

Reports the following copies of a tensor to CPU memory in traced code.
Traced code is code that JAX traces to compile it, such as a model's `forward`.

- `.cpu()`, `.numpy()` and `.to("cpu")`.
- `.to(device)`, if `device` is known to be the CPU.
- NumPy functions that are called with a tensor.
- `.to(self.steps.device)`, if every assignment to `self.steps` in the class creates a CPU tensor. An
  assignment such as `self.steps = torch.arange(n, device=device)` in a method `set_steps(self, n,
  device=None)` also counts, because the tensor is on the CPU if the caller passes no device.

A copy is not reported if the tensor already is on the CPU.
Copies in code that is not traced are not reported, either.

## Why it matters on TPU

A copy to the host needs the tensor's values, which do not exist while JAX traces the code.

- In jitted code, a copy to the host raises `jax.errors.TracerArrayConversionError: The numpy.ndarray
  conversion method __array__() was called on traced array`.
- In code that is not jitted, each copy to the host waits for the device.
- The copy is a CPU tensor, and torchax cannot combine CPU tensors with device tensors.
  torchax raises `AssertionError: Expect a Tensor or a View but got <class 'torch.Tensor'>; usually this means
  there is a mixed math between XLATensor and torch.Tensor`.

## Fix safety

The fix is unsafe: it removes `.cpu()` or `.to("cpu")`, so the tensor stays on the device.
The fixed code fails if later code passes the tensor to a function that needs a CPU tensor, such as a NumPy
function.
If tpulint sees such later code, it offers no fix.

## Without a fix

- Replace each NumPy function with the corresponding function of torch.
- Or return the tensor, and copy it to the host outside of the traced function.
- If the traced function itself needs NumPy, call the NumPy function on the host with `jax.pure_callback`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix, Span
from tpulint.knowledge.tensors import NUMPY_OF_VALUES
from tpulint.model.values.kinds import Device, Kind, Static, Tensor, Unknown
from tpulint.rule import Context, Rule

rule = Rule(
    "TPU305", "copy of a tensor to the host in traced code", module=__name__, fix=Applicability.UNSAFE
)

_COPIES = "copies a tensor to the host, but tensors have no values while JAX traces the code"


@rule.on(ast.Call, named={"cpu", "numpy"}, traced=True)
def copied(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or call.args or call.keywords:
        return
    receiver = ctx.kind(call.func.value)
    surely = receiver.is_traced or (isinstance(receiver, Unknown) and ctx.is_parameter(call.func.value))
    if not surely or ctx.qualified_name(call.func) is not None:
        return
    if not ctx.module.is_reached(call, ctx.scope):
        return  # `if x.device.type == "mps":` and the like
    message = f"`.{call.func.attr}()` {_COPIES}"
    yield ctx.finding(call, message, _left_out(call, ctx) if call.func.attr == "cpu" else None)


@rule.on(ast.Call, named={"to"}, traced=True)
def moved(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or not ctx.kind(call.func.value).is_traced:
        return
    place = next((k.value for k in call.keywords if k.arg == "device"), call.args[0] if call.args else None)
    if place is None:
        return
    message = f"`.to({ctx.text(place)})` {_COPIES}"
    if not _is_host(ctx.kind(place)):
        holder = place.value if isinstance(place, ast.Attribute) and place.attr == "device" else place
        if not ctx.module.starts_on_host(holder, ctx.scope):
            return
        message += f" (`{ctx.text(holder)}` is on the CPU by default)"
    alone = len(call.args) + len(call.keywords) == 1
    yield ctx.finding(call, message, _left_out(call, ctx) if alone else None)


@rule.on(ast.Call, named=NUMPY_OF_VALUES, traced=True)
def handed_to_numpy(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.qualified_name(call.func) or ""
    if not name.startswith("numpy.") or not any(ctx.kind(argument).is_traced for argument in call.args):
        return
    called = ctx.text(call.func)
    yield ctx.finding(call, f"`{called}` {_COPIES}")


def _is_host(kind: Kind) -> bool:
    """Whether the target of the copy is the CPU (`"cpu"`, or a CPU tensor)."""
    if isinstance(kind, Tensor):
        return kind.is_host
    return kind in (Device("cpu"), Static("cpu"))


def _left_out(call: ast.Call, ctx: Context) -> Fix | None:
    """The fix that removes the copy; None if the result is used on the host, or may be."""
    assert isinstance(call.func, ast.Attribute)
    outer = ctx.parent(call)
    if any(name in ("numpy", "tolist", "data_ptr", "item") for name in _taken_of(call, ctx)):
        return None
    if isinstance(outer, ast.Call) and call in outer.args:
        name = ctx.qualified_name(outer.func)
        if name is None or not name.startswith("torch."):
            return None
    if isinstance(outer, ast.Assign | ast.Return | ast.Tuple | ast.List | ast.Dict):
        return None  # where it goes from here is not known
    text, end = ctx.module.source.text, ctx.span(call.func.value).end
    # Parentheses around the tensor, and comments behind it, stay.
    dot = text.rfind(".", end, ctx.span(call.func).end - len(call.func.attr))
    gap = text[end:dot]
    edit = ctx.edit(Span(dot if "#" in gap else end + len(gap.rstrip()), ctx.span(call).end), "")
    name = ".cpu()" if call.func.attr == "cpu" else ".to(...)"
    title = f"remove `{name}` and keep the tensor on the device"
    return ctx.fix(title, edit, applicability=Applicability.UNSAFE)


def _taken_of(call: ast.Call, ctx: Context) -> Iterator[str]:
    """The attributes chained to a call, such as `detach` and `numpy` in `x.cpu().detach().numpy()`."""
    node: ast.AST | None = call
    while isinstance(node, ast.Call) and isinstance(outer := ctx.parent(node), ast.Attribute):
        yield outer.attr
        node = ctx.parent(outer)
