"""Tensor created on the CPU in traced code.

## What it does

Reports tensors that traced code creates without `device=` and combines with a device tensor.
Traced code is code that JAX traces to compile it, such as a model's `forward`.
Examples of calls that create a CPU tensor are `torch.arange(n)`, `torch.ones(n)` and `torch.tensor([...])`.

- The rule also reports a CPU tensor that one function creates and another function of the same file combines
  with a device tensor.
  The second function receives the CPU tensor as an argument, or as the result of a call of the first
  function.
- The rule also reports a call of a function of another file that always gives CPU tensors, if the result is
  combined with a device tensor.
  An example is a function that computes a table of angles with `torch.arange`.
- `torch.ones(n, device=device)` is also reported if `device` is a parameter that is `None` in some calls of
  the function, because torch then creates a CPU tensor.
- If the code writes device tensors into a CPU tensor, as in `out[i] = x.sum()`, tpulint reports each write.
- The rule always reports an integer tensor that a `forward` method creates on the CPU and returns.
  Callers often use such a tensor as an index without moving it to the device, because CUDA tensors accept CPU
  tensors as indices.

A tensor that is moved with `.to(...)`, or that has only one element, is not reported.

## Why it matters on TPU

Without `device=`, torch creates a CPU tensor.

- torchax cannot combine CPU tensors with its own tensors, whether or not the code is jitted.
  torchax raises `AssertionError: Expect a Tensor or a View but got <class 'torch.Tensor'>; usually this means
  there is a mixed math between XLATensor and torch.Tensor`.
- A write of a device tensor into a CPU tensor raises `AttributeError: 'Tensor' object has no attribute
  '_elem'`.

## Fix safety

The fix is safe, except for random numbers.
The fix adds `device=` with the device of another tensor in the function, as in `device=x.device`.
The fixed code also works on a GPU.
In the following cases, the fix adds `.to(device)` to the call instead of `device=`:

- for `torch.from_numpy`, which has no parameter `device`;
- for lists that mix integers with floats, because torchax would take the dtype of the first element;
- for random numbers in programs that train: the fixed program still draws the numbers on the CPU, and then
  moves them to the device.

In programs that do not train, the fix is unsafe for random numbers.
The fixed program draws the numbers on the device, so the numbers differ from those that the CPU draws with
the same seed.

## Without a fix

Pass `device=x.device`, where `x` is a device tensor that is available in the function.
If no device tensor is available in the function, add a parameter `device` to the function, and pass
`device=device`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tensors import FACTORIES, NO_DEVICE_KEYWORD
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule, Several, Tensor

rule = Rule("TPU501", "tensor created on the CPU in traced code", module=__name__, fix=Applicability.SAFE)

_HANDLED = "CPU tensors in traced code"


@rule.on(ast.Call, named=FACTORIES, traced=True, handled=_HANDLED)
def factory(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = (ctx.names.qualified(call.func) or "").removeprefix("torch.")
    if name not in FACTORIES or not ctx.devices.mixes_host_tensor(call):
        return
    given = next((ctx.text(word.value) for word in call.keywords if word.arg == "device"), None)
    if given is None:
        what = f"`torch.{name}` without `device=` creates a CPU tensor"
    else:
        what = f"`{given}` is None in some calls, so `torch.{name}` creates a CPU tensor"
    message = f"{what}, which torchax cannot combine with device tensors"
    yield ctx.finding(call, message, _placed(call, name, ctx))


@rule.on(ast.Call, traced=True, handled=_HANDLED)
def given_by_other_file(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not ctx.devices.mixes_host_tensor(call):
        return
    kind, function = ctx.types.of(call), ctx.text(call.func)
    several = isinstance(kind, Several)
    if not several and not (isinstance(kind, Tensor) and kind.is_host):
        return
    name = ctx.names.qualified(call.func) or ""
    if name.startswith("torch.") or (not name and not function.startswith("self.")):
        return
    message = f"`{function}` gives {'CPU tensors' if several else 'a CPU tensor'}"
    device = None if several else _device_at_hand(call, ctx)
    fix = None
    if device is not None:
        edit = ctx.rewrite.replace(call, f"{ctx.text(call)}.to({device})")
        fix = ctx.rewrite.fix(f"move the result of `{function}` to the device with `.to({device})`", edit)
    yield ctx.finding(call, f"{message}, which torchax cannot combine with device tensors", fix)


@rule.on(ast.Subscript, where=lambda node: isinstance(node.ctx, ast.Store), traced=True, handled=_HANDLED)
def written(node: ast.Subscript, ctx: Context) -> Iterator[Finding]:
    makers = ctx.devices.written_from_device(node)
    if not makers:
        return
    tensor = ctx.text(node.value)
    message = f"torchax cannot write a device tensor into `{tensor}`, which is a CPU tensor"
    name = (ctx.names.qualified(makers[0].func) or "").removeprefix("torch.")
    yield ctx.finding(
        node, message, _placed(makers[0], name, ctx) if len(makers) == 1 and name in FACTORIES else None
    )


def _placed(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    device = _device_at_hand(call, ctx)
    if device is None or _names_device(call):
        return None
    draws = name.startswith(("rand", "normal"))  # where gradients are asked for, on the host
    if name in NO_DEVICE_KEYWORD or _mixes_numbers(call) or (draws and ctx.program.asks_gradients):
        edit = ctx.rewrite.replace(call, f"{ctx.text(call)}.to({device})")
        return ctx.rewrite.fix(f"move the result of `torch.{name}` to the device with `.to({device})`", edit)
    applicability = Applicability.UNSAFE if draws else Applicability.SAFE
    edit = ctx.rewrite.add_argument(call, f"device={device}")
    title = f"add `device={device}` to `torch.{name}`, which then creates a device tensor"
    return ctx.rewrite.fix(title, edit, applicability=applicability)


def _names_device(call: ast.Call) -> bool:
    """Whether the call passes `device=`, which is None in some calls of the function."""
    return any(keyword.arg == "device" for keyword in call.keywords)


def _mixes_numbers(call: ast.Call) -> bool:
    """Whether the numbers in the first argument are of several types."""
    numbers = {type(n.value) for arg in call.args[:1] for n in ast.walk(arg) if isinstance(n, ast.Constant)}
    return len(numbers & {int, float, bool}) > 1


def _device_at_hand(call: ast.Call, ctx: Context) -> str | None:
    """The device of a tensor that is certainly in scope at the call; None if there is none."""
    for outer in ctx.ancestors(call):  # what it meets, where the text shows it
        if isinstance(outer, ast.stmt):
            break
        if isinstance(outer, ast.BinOp):
            for side in (outer.left, outer.right):
                kind = ctx.types.of(side)
                if (
                    isinstance(side, ast.Name)
                    and isinstance(kind, Tensor)
                    and kind.is_tensor
                    and not kind.is_host
                ):
                    return f"{side.id}.device"
    for name, kind in ctx.names.at_hand(call):
        if isinstance(kind, Tensor) and kind.is_tensor and not kind.is_host:
            return f"{name}.device"
    return None
