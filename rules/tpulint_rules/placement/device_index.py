"""Device given as a GPU index or a rank.

## What it does

Reports an integer where torch expects a device:

- `device=0` in factory functions and layers;
- `x.to(0)` on a tensor, unless the tensor is known to be on the host;
- `.to(...)` on any object, if the argument is `int(os.environ["LOCAL_RANK"])` (torchrun sets this variable)
  or `rank % torch.cuda.device_count()`.

The integer is a literal, a call of `int(...)`, or the rank of the process.
A function parameter with the name `rank` counts as the rank of the process.
`torch.device(0)` and `module.to(0)` work with torchax and are not reported.

## Why it matters on TPU

torch reads the integer as the index of a GPU.
With torchax, an integer as the device raises:

- Factory functions raise `TypeError: argument of type 'int' is not iterable`.
- `zeros_like` with `device=0`, and `.to(0)` on a device tensor, raise `NotImplementedError: Could not run
  'aten::empty_strided' with arguments from the 'jax' backend`.
- Under `jax_jit`, `.to(0)` raises `TracerArrayConversionError`.

The device `"jax"` stands for all chips of the host at once.

## Fix safety

In a program that does not enter the torchax environment yet, the fix is unsafe: `"jax"` raises there until
the fix of TPU001 (`missing-torchax-environment`) is applied, too.

The fix replaces the integer with `"jax"`.

- The fix is safe for an integer literal that is an argument of torch.
- The fix is unsafe for a rank, because all ranks then use the same device `"jax"`.
- The fix is unsafe for a call of `.to(...)` on an object of unknown type: if the object is not a tensor or a
  module, its method `to` may not accept `"jax"`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Finding, Instance, Rule, Tensor, Unknown

rule = Rule("TPU108", "device given as a GPU index or a rank", module=__name__, fix=Applicability.SAFE)

#: What a function calls the number of a process that it is given.
_RANKS = frozenset({"rank", "local_rank"})
_NUMBERS = frozenset({"builtins.int", "torch.distributed.get_rank"})


@rule.on(ast.Call, named={"to"})
def moved(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or ctx.names.qualified(call.func) is not None:
        return
    places = [*call.args[:1], *_given(call)]
    ranked = [place for place in places if _is_local_rank(place, ctx)]
    if not ranked and not any(_is_literal(place) or _is_number(place, ctx) for place in places):
        return
    receiver = ctx.types.of(call.func.value)
    if isinstance(receiver, Tensor) and not receiver.is_host:
        yield from _numbered(call, places, ctx, receiver.certain)
        return
    yield from (_named(place, ctx, Applicability.UNSAFE) for place in ranked)


@rule.on(ast.Call, passing={"device"})
def made(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name != "torch.device" and not (isinstance(call.func, ast.Attribute) and call.func.attr == "to"):
        yield from _numbered(call, _given(call), ctx, name is not None)


def _given(call: ast.Call) -> list[ast.expr]:
    return [keyword.value for keyword in call.keywords if keyword.arg == "device"]


def _numbered(call: ast.Call, places: list[ast.expr], ctx: Context, known: bool) -> Iterator[Finding]:
    for place in places:
        literal = _is_literal(place)
        if not (literal or _is_number(place, ctx)) or not ctx.devices.takes_device(call, place):
            continue
        yield _named(place, ctx, Applicability.SAFE if literal and known else Applicability.UNSAFE)


def _named(place: ast.expr, ctx: Context, applicability: Applicability) -> Finding:
    title = f'replace the GPU index `{ctx.text(place)}` with the torchax device `"jax"`'
    fix = ctx.rewrite.fix(title, ctx.rewrite.replace(place, '"jax"'), applicability=applicability)
    return ctx.finding(
        place, f"`{ctx.text(place)}` is a GPU index, which torchax does not accept as a device", fix
    )


def _is_literal(place: ast.expr) -> bool:
    """True for an integer literal."""
    return isinstance(place, ast.Constant) and type(place.value) is int


def _is_local_rank(place: ast.expr, ctx: Context) -> bool:
    """Whether the device is the launcher's index for this process, such as `LOCAL_RANK`."""
    if not ctx.names.has_string("LOCAL_RANK") and not ctx.names.has_call("device_count"):
        return False
    values = [place]
    if isinstance(place, ast.Name):
        values = ctx.names.assigned_values(place)
    elif isinstance(place, ast.Attribute):
        owner = ctx.types.of(place.value)
        assigned = ctx.types.attribute_values(owner.cls, place.attr) if isinstance(owner, Instance) else ()
        values = [value for value, _ in assigned]
    return bool(values) and all(_names_gpu(value, ctx) for value in values)


def _names_gpu(value: ast.expr, ctx: Context) -> bool:
    """Whether the value is `int(os.environ["LOCAL_RANK"])` or `rank % torch.cuda.device_count()`."""
    match value:
        case ast.Call(func=called):
            parts = (part.value for part in ast.walk(value) if isinstance(part, ast.Constant))
            return ctx.names.qualified(called) == "builtins.int" and "LOCAL_RANK" in parts
        case ast.BinOp(op=ast.Mod(), right=ast.Call(func=called)):
            return ctx.names.qualified(called) == "torch.cuda.device_count"
        case _:
            return False


def _is_number(place: ast.expr, ctx: Context) -> bool:
    """Whether a device is given as a number, such as a rank.

    That is a rank, a variable that only holds ranks, or a parameter named like one.
    """
    values = ctx.names.assigned_values(place) if isinstance(place, ast.Name) else [place]
    if isinstance(place, ast.Name) and not values:
        return place.id in _RANKS and isinstance(ctx.types.of(place), Unknown)
    return bool(values) and all(
        (isinstance(value, ast.Call) and ctx.names.qualified(value.func) in _NUMBERS)
        or _names_gpu(value, ctx)
        for value in values
    )
