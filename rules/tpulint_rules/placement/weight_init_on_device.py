"""Module initialised on the device.

## What it does

Flags `net.apply(init_weights)` behind `net.cuda()`, `net.to(device)` or `net = Net().to(device)`, where
`init_weights` is a function of the file that draws normal numbers or calls another one to initialise, or one
of another file with `init` in its name.

## Why it matters on TPU

What draws from a normal distribution in place raises for parameters on torchax: `nn.init.normal_`,
`xavier_normal_` and `kaiming_normal_` with `RuntimeError: Overloaded torch operator invoked from Python
failed to match any schema: aten::normal()`, and `m.weight.data.normal_()` with `RuntimeError: a leaf Variable
that requires grad is being used in an in-place operation`.

## Fix safety

Unsafe: the module goes to the host and back around the call, and gets new parameters by that: an optimizer
that was made before would keep the old ones.
The numbers are those that the host draws.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding
from tpulint.model.devices.doors import takes_device
from tpulint.model.training.called import own_function
from tpulint.model.values.pending import statements
from tpulint.rule import Context, Rule, is_name

rule = Rule(
    "TPU109",
    "module initialised on the device",
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
    own = own_function(ctx.module, function, ctx.scope)
    if not (_draws(own.node) if own is not None else "init" in function.id):
        return
    device = _device(name, ctx.statement(call), ctx)
    if device is None:
        return
    message = (
        f"`{function.id}` is applied to parameters on the device, which raises where it draws normal numbers"
    )
    edits = (
        ctx.insert(ctx.span(base).end, '.to("cpu")'),
        ctx.insert(ctx.span(call).end, f".to({device})"),
    )
    title = "go to the host and back around it"
    yield ctx.finding(call, message, ctx.fix(title, *edits, applicability=Applicability.UNSAFE))


def _draws(function: ast.AST) -> bool:
    """Whether a function names what draws normal numbers, or something else that initialises."""
    named = {getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(function)}
    return any("normal" in name or ("init" in name and name != "init") for name in named)


def _device(name: str, before: ast.stmt, ctx: Context) -> str | None:
    """The device that a module was moved to last before a statement, as it is written there."""
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
            if takes_device(ctx.module, move, device, ctx.scope):
                return ctx.text(device)
    return None
