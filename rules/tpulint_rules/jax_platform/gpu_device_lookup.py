"""Lookup of GPUs among the devices of JAX.

## What it does

Reports a GPU platform (`gpu`, `cuda` or `rocm`) as the argument of:

- `jax.devices`, `jax.local_devices`, `jax.device_count`, `jax.local_device_count`, `jax.process_count` and
  `jax.process_index`;
- `jax.extend.backend.get_backend`;
- `jax.default_device`, and the option `jax_default_device` of `jax.config.update`.

If the argument is a name, an attribute or a configuration, it is followed through the file.

The rule does not report code in a function that also names the platform `tpu`.

## Why it matters on TPU

A TPU host has no GPU, so `jax.devices("gpu")` raises `RuntimeError: Unknown backend: 'gpu' requested, but no
platforms that are instances of gpu are present`.

If the program catches this error, it usually continues on the CPU, and leaves the TPU idle.

The error was measured with jax 0.10.2.

## Fix safety

Without the argument, JAX uses its default platform: a TPU if there is one, otherwise a GPU, otherwise the
CPU.

- The fix is safe if the program does not catch the error: it removes the argument.
- The fix is unsafe in a `try` statement that catches the error: the fixed code no longer raises.
- The fix is unsafe if the platform is computed: it passes `None` instead of a GPU platform.
- If the program asks whether there are GPUs, as in `if jax.devices("gpu"):`, the fix lists the devices other
  than the CPU, and is unsafe.

## Without a fix

If the program catches the error to find out whether there is a GPU, and uses no device, write
`jax.default_backend() != "cpu"` instead of the `try` statement.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.jax_platform import DEFAULT_DEVICE, LOOKUPS, is_gpu
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule

rule = Rule(
    "JAX102",
    "lookup of GPUs among the devices of JAX",
    module=__name__,
    fix=Applicability.SAFE,
)

_LISTS = frozenset({"jax.devices", "jax.local_devices"})
_ASKING = frozenset({"builtins.len", "builtins.bool", "builtins.any"})


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in LOOKUPS))
def lookup(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in LOOKUPS:
        return
    argument = next((word for word in call.keywords if word.arg == "backend"), None)
    position = LOOKUPS[name]
    given: ast.expr | ast.keyword | None = argument
    if given is None and len(call.args) > position:
        given = call.args[position]
    if given is None or ctx.devices.only_with_cuda(call):
        return
    value = given.value if isinstance(given, ast.keyword) else given
    platforms = sorted(filter(is_gpu, ctx.program.texts(value)), key=str)
    if not platforms or ctx.names.has_string_nearby("tpu"):
        return
    verb = "asks" if isinstance(value, ast.Constant) else "may ask"
    message = f"`{name}` {verb} for the platform `{platforms[0]}`, which a TPU host does not have"
    if ctx.devices.is_caught(call):
        yield ctx.finding(call, f"{message}; the program catches the error", _caught(call, given, name, ctx))
    else:
        yield ctx.finding(call, f"{message}, so it raises", _fix(call, given, name, ctx))


def _caught(call: ast.Call, given: ast.expr | ast.keyword, name: str, ctx: Context) -> Fix | None:
    """The fix of a call whose error is caught; None if its result is not used."""
    statement = ctx.statement(call)
    unused = isinstance(statement, ast.Expr)
    if isinstance(statement, ast.Assign):
        unused = all(isinstance(target, ast.Name) and target.id == "_" for target in statement.targets)
    if unused and not _asks(call, ctx):
        return None
    return _fix(call, given, name, ctx, applicability=Applicability.UNSAFE)


def _fix(
    call: ast.Call,
    given: ast.expr | ast.keyword,
    name: str,
    ctx: Context,
    *,
    applicability: Applicability = Applicability.SAFE,
) -> Fix | None:
    value = given.value if isinstance(given, ast.keyword) else given
    if name in _LISTS and _asks(call, ctx):
        if not isinstance(value, ast.Constant):
            return None
        head = ctx.text(call.func)
        edit = ctx.rewrite.replace(call, f'[d for d in {head}() if d.platform != "cpu"]')
        title = "list the devices other than the CPU"
        return ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE, serves_cuda=True)
    if isinstance(value, ast.Constant):
        edit, title = ctx.rewrite.remove_argument(given), "use the default platform"
        return ctx.rewrite.fix(title, edit, applicability=applicability, serves_cuda=True)
    if not isinstance(value, ast.Name | ast.Attribute):
        return None
    text = ctx.text(value)
    edit = ctx.rewrite.replace(value, f'None if {text} in ("gpu", "cuda") else {text}')
    title = f"use the default platform if `{text}` is a GPU"
    return ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE, serves_cuda=True)


def _asks(call: ast.Call, ctx: Context) -> bool:
    """Whether the code only asks whether there are such devices."""
    if _is_tested(call, ctx):
        return True
    statement = ctx.statement(call)
    match statement:
        case ast.Return(value=value) if value is call:
            return ctx.devices.is_caught(call)
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is call:
            return any(_is_tested(use, ctx) for use in ctx.names.loads_after(name, statement))
    return False


def _is_tested(node: ast.expr, ctx: Context) -> bool:
    """Whether the expression is a condition, or is counted in one."""
    outer = ctx.parent(node)
    match outer:
        case ast.Call() if node in outer.args and ctx.names.qualified(outer.func) in _ASKING:
            return _is_condition(outer, ctx)
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            return test is node
        case ast.UnaryOp(op=ast.Not()):
            return True
    return False


def _is_condition(count: ast.expr, ctx: Context) -> bool:
    """Whether a number is a condition, or is compared with another one, as in `len(gpus) > 0`."""
    match ctx.parent(count):
        case ast.Compare(left=left, comparators=[other]):
            return left is count and isinstance(other, ast.Constant)
        case ast.If(test=test) | ast.IfExp(test=test):
            return test is count
        case ast.UnaryOp() | ast.BoolOp() | ast.Return():
            return True
    return False


@rule.on(ast.Call, named={"default_device"})
def default_device(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) == "jax.default_device" and len(call.args) == 1:
        yield from _default(call.args[0], ctx.text(call.func).removesuffix("default_device"), ctx)


@rule.on(ast.Constant, named={DEFAULT_DEVICE})
def option(node: ast.Constant, ctx: Context) -> Iterator[Finding]:
    call = ctx.parent(node)
    if not isinstance(call, ast.Call) or ctx.names.qualified(call.func) != "jax.config.update":
        return
    if len(call.args) == 2 and call.args[0] is node:
        yield from _default(call.args[1], ctx.text(call.func).removesuffix("config.update"), ctx)


def _default(value: ast.expr, module: str, ctx: Context) -> Iterator[Finding]:
    """A finding if the default device is the name of a GPU platform."""
    if not isinstance(value, ast.Constant) or not is_gpu(str(value.value)):
        return
    fix = None
    if module.endswith("."):
        edit = ctx.rewrite.replace(value, f"{module}devices()[0]")
        fix = ctx.rewrite.fix("use the first device of the default platform", edit, serves_cuda=True)
    message = f"the default device is `{value.value!s}`, which a TPU host does not have, so JAX raises"
    yield ctx.finding(value, message, fix)
