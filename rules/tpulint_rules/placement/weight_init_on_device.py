"""Weights initialized with `Module.apply` on the device.

## What it does

Reports `net.apply(init_weights)` after `net.cuda()`, `net.to(device)` or `net = Net().to(device)`.
The rule reports the call if `init_weights` is one of these functions:

- a function of the same file that draws from a normal distribution, or that calls another function to
  initialize weights;
- a function of another file with `init` in its name.

## Why it matters on TPU

Functions that fill a parameter in place with normally distributed numbers raise if the parameter is on the
torchax device:

- `nn.init.normal_`, `xavier_normal_` and `kaiming_normal_` raise `RuntimeError: Overloaded torch operator
  invoked from Python failed to match any schema: aten::normal()`.
- `m.weight.data.normal_()` raises `RuntimeError: a leaf Variable that requires grad is being used in an
  in-place operation`.

## Fix safety

The fix moves the module to the host before `net.apply(...)`, and back to the device afterwards.
The fix is unsafe for two reasons:

- The move creates new parameters, so an optimizer that was created before the move still refers to the old
  parameters.
- The random numbers are drawn on the host, so they differ from those that a GPU draws.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Finding, Rule
from tpulint.rules_api.syntax import is_name, statements

rule = Rule(
    "TPU109",
    "weights initialized with `Module.apply` on the device",
    module=__name__,
    former=("initialised-on-device",),
    fix=Applicability.UNSAFE,
)


@rule.on(ast.Call, named={"apply"})
def applied(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name) as base), args=[ast.Name() as function]):
            pass
        case _:
            return
    own = ctx.names.called_function(function)
    if not (_draws(own.node) if own is not None else "init" in function.id):
        return
    device = _device(name, ctx.statement(call), ctx)
    if device is None:
        return
    message = f"`{function.id}` initializes parameters on the torchax device, where in-place `normal_` raises"
    edits = (
        ctx.rewrite.wrap(base, "", '.to("cpu")'),
        ctx.rewrite.wrap(call, "", f".to({device})"),
    )
    title = f"move `{name}` to the CPU before this call, and back to the device after it"
    yield ctx.finding(call, message, ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE))


def _draws(function: ast.AST) -> bool:
    """Whether the function draws normal random numbers or initializes weights, by the names it uses."""
    named = {getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(function)}
    return any("normal" in name or ("init" in name and name != "init") for name in named)


def _device(name: str, before: ast.stmt, ctx: Context) -> str | None:
    """The device to which the module was moved before this call; None if it was not moved."""
    found = None
    for statement in statements(ctx.function_body):
        if statement is before:
            return found
        match statement:
            case ast.Assign(targets=[target], value=ast.Call() as move) if is_name(target, name):
                found = _moved_to(move, ctx)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=base)) as move) if is_name(base, name):
                found = _moved_to(move, ctx) or found
            case _:
                pass
    return None


def _moved_to(move: ast.Call, ctx: Context) -> str | None:
    match move:
        case ast.Call(func=ast.Attribute(attr="cuda")):
            return '"jax"'
        case ast.Call(func=ast.Attribute(attr="to"), args=[device, *_]):
            if ctx.devices.takes_device(move, device):
                return ctx.text(device)
    return None
