"""Function of torch that is otherwise under torchax.

## What it does

Flags, in scripts that put something on a device and compute no gradients, and in what they import:
`torch.randperm` without a device, `load_state_dict` of a module that was not moved with the state of one that
was, and `tolist()` and `numpy()` of what a function of the program gives, which may be a slice.

## Why it matters on TPU

`torch.randperm` is drawn by JAX, on the device, whatever generator and seed the host has: other numbers,
silently.
Copying a state from the device to the host raises `RuntimeError: Error(s) in loading state_dict` with
`'Parameter' object has no attribute '_elem'`.
A slice such as `s[:2]` has no `tolist()`: `RuntimeError: .tolist() is not supported for tensor subclasses,
got View`.

## Fix safety

Unsafe: `import torchax_training`, a folder that is written beside the program, changes torch and torchax, so
that these and others are as they are in torch.
Programs that compute gradients get it by TPU611.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix
from tpulint.knowledge.training import TRAINING
from tpulint.model.values.kinds import Tensor
from tpulint.rule import Context, Rule

rule = Rule(
    "TPU905", "function of torch that is otherwise under torchax", module=__name__, fix=Applicability.UNSAFE
)


@rule.on(ast.Call, named={"randperm"})
def permutation(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    placed = any(word.arg in ("device", None) for word in call.keywords)
    if ctx.qualified_name(call.func) == "torch.randperm" and not placed and _is_open(call, ctx):
        message = "`torch.randperm` is drawn on the device under torchax, other numbers than the host's"
        yield ctx.finding(call, message, _by_companion(ctx))


@rule.on(ast.Call, named={"load_state_dict"})
def state(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    given = call.args[0] if call.args else None
    if not isinstance(call.func, ast.Attribute) or not isinstance(given, ast.Call):
        return
    if not isinstance(given.func, ast.Attribute) or given.func.attr != "state_dict":
        return
    to, of = call.func.value, given.func.value
    if not isinstance(to, ast.Name) or not isinstance(of, ast.Name):
        return
    if not _is_moved(to, call, ctx) and _is_moved(of, call, ctx) and _is_open(call, ctx):
        message = "`load_state_dict` cannot copy from torchax's device to the host"
        yield ctx.finding(call, message, _by_companion(ctx))


@rule.on(ast.Call, named={"tolist", "numpy"})
def read(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    kind = ctx.kind(receiver) if isinstance(receiver, ast.Name) else None
    if not isinstance(receiver, ast.Name) or not isinstance(kind, Tensor) or kind.is_host or kind.scalar:
        return
    if _is_given(receiver, ctx) and _is_open(call, ctx):
        name = ctx.text(call.func)
        yield ctx.finding(call, f"`{name}()` raises under torchax where it is a slice", _by_companion(ctx))


def _is_open(call: ast.Call, ctx: Context) -> bool:
    """Whether code runs in torchax's environment without the folder, and none of TPU611 writes it."""
    if not ctx.serves_device or ctx.is_trained or ctx.is_differentiated or ctx.trace_path is not None:
        return False
    project = ctx.module.project
    if project.imports_any(TRAINING.name) or not project.is_of_script(ctx.module.name):
        return False
    return not ctx.only_with_cuda(call) and not any(True for _ in ctx.calls("backward"))


def _is_moved(module: ast.Name, before: ast.Call, ctx: Context) -> bool:
    """Whether a name was given a module that was moved, or is moved in the same scope before a call."""
    found = ctx.module.names.lookup(module.id, ctx.scope)
    values = [binding.value for binding in found[1] if binding.value is not None] if found is not None else []
    if any(_moves(value) and value.lineno <= before.lineno for value in values):
        return True
    moves = [call for name in ("to", "cuda") for call, at in ctx.calls(name) if at.scope is ctx.scope]
    return any(
        isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == module.id
        and call.lineno < before.lineno
        for call in moves
    )


def _moves(value: ast.expr) -> bool:
    """Whether a value is `.to(...)` or `.cuda()` of something, and what is called on that."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr in ("to", "cuda"):
            return True
        value = value.func.value
    return False


def _is_given(name: ast.Name, ctx: Context) -> bool:
    """Whether all that a name is bound to comes from functions of the program."""
    values = ctx.assigned_values(name)
    project = ctx.module.project
    called = [ctx.qualified_name(value.func) for value in values if isinstance(value, ast.Call)]
    return bool(called) and all(one is not None and project.home(one) is not None for one in called)


def _by_companion(ctx: Context) -> Fix | None:
    imports = ctx.companion_import(TRAINING)
    if imports is None:
        return None
    title = f"use what `{TRAINING.name}` brings in"
    return ctx.fix(title, *imports, applicability=Applicability.UNSAFE, companion=TRAINING)
