"""Configuration of GPUs in TensorFlow.

## What it does

Reports code that configures GPUs or asks for their memory:

- `tf.config.experimental.set_memory_growth`;
- `set_logical_device_configuration`, `set_virtual_device_configuration` and `set_visible_devices` for GPUs;
- `get_memory_info`, `get_memory_usage` and `reset_memory_stats` of `tf.config.experimental` for a GPU;
- environment variables such as `TF_FORCE_GPU_ALLOW_GROWTH` and `TF_GPU_THREAD_MODE`.

The rule reports nothing with the setting `keep-gpu`.

## Why it matters on TPU

- A TPU host has no GPU, so a loop over the GPUs does nothing, and `gpus[0]` raises `IndexError: list index
  out of range`.
- `tf.config.experimental.get_memory_info("GPU:0")` raises `ValueError: No matching devices found for
  'GPU:0'`.
- The environment variables have no effect on TPU.

These errors were measured with tensorflow-cpu 2.21.0.

## Fix safety

The fix removes the call or the assignment, together with a loop, a condition or a `try` that has nothing else
to do.
It is safe: the settings have no effect on TPU.

## Without a fix

- Remove a query for the memory of a GPU by hand.
- A call in a longer expression has no fix.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tensorflow_api import (
    GPU_SETTINGS,
    LISTS,
    MEMORY_QUERIES,
    ONLY_GPU,
    VARIABLES,
    is_gpu_device,
)
from tpulint.rules_api import Applicability, Context, Finding, Rule, Severity
from tpulint.rules_api.syntax import is_name

rule = Rule(
    "TF103",
    "configuration of GPUs in TensorFlow",
    module=__name__,
    fix=Applicability.SAFE,
    severity=Severity.COSMETIC,
)


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in GPU_SETTINGS))
def setting(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in GPU_SETTINGS or ctx.program.keeps_cuda:
        return
    if name not in ONLY_GPU and not _is_for_gpus(call, GPU_SETTINGS[name], ctx):
        return
    statement, fix = ctx.statement(call), None
    if isinstance(statement, ast.Expr) and statement.value is call:
        title = f"remove the call of `{name.rpartition('.')[2]}`"
        fix = ctx.rewrite.fix(title, ctx.rewrite.delete(_outermost(statement, ctx)))
    message = f"`{name.rpartition('.')[2]}` configures GPUs and has no effect on TPU"
    yield ctx.finding(call, message, fix)


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in MEMORY_QUERIES))
def query(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in MEMORY_QUERIES or ctx.program.keeps_cuda or not call.args:
        return
    if any(map(is_gpu_device, ctx.program.texts(call.args[0]))):
        short = name.rpartition(".")[2]
        message = f"`{short}` of a GPU raises `ValueError` on a TPU host, which has no GPU"
        yield ctx.finding(call, message, severity=Severity.BLOCKS)


@rule.on(ast.Constant, named=VARIABLES)
def variable(node: ast.Constant, ctx: Context) -> Iterator[Finding]:
    found = ctx.program.variable_write(node)
    if found is None or ctx.program.keeps_cuda:
        return
    name, fix = str(node.value), None
    if found.statement is not None and isinstance(found.value, ast.Constant):
        fix = ctx.rewrite.fix(f"remove the setting `{name}`", ctx.rewrite.delete(found.statement))
    yield ctx.finding(node, f"`{name}` configures GPUs and has no effect on TPU", fix)


def _is_for_gpus(call: ast.Call, position: int, ctx: Context) -> bool:
    """Whether the call configures GPUs, by its device type or by the device."""
    if position >= 0:
        given = [
            *call.args[position : position + 1],
            *(w.value for w in call.keywords if w.arg == "device_type"),
        ]
        return any(map(is_gpu_device, (text for one in given for text in ctx.program.texts(one))))
    return bool(call.args) and _is_gpu(call.args[0], ctx)


def _is_gpu(node: ast.expr, ctx: Context) -> bool:
    """Whether the expression is one of the GPUs, or the list of them."""
    match node:
        case ast.Subscript(value=listed):
            return _is_gpu(listed, ctx)
        case ast.Call(args=[kind, *_]) if ctx.names.qualified(node.func) in LISTS:
            return any(map(is_gpu_device, ctx.program.texts(kind)))
        case ast.Name(id=name):
            values = [value for value in ctx.names.assigned_values(node) if not isinstance(value, ast.Name)]
            loops = (outer for outer in ctx.ancestors(node) if isinstance(outer, ast.For))
            values += [loop.iter for loop in loops if is_name(loop.target, name)]
            return any(_is_gpu(value, ctx) for value in values)
    return False


def _outermost(statement: ast.stmt, ctx: Context) -> ast.stmt:
    """The statement around this one that has nothing else to do."""
    outer = ctx.parent(statement)
    match outer:
        case ast.For(body=[_], orelse=[], iter=values):
            if isinstance(values, ast.Name) or _is_gpu(values, ctx):
                return _outermost(outer, ctx)
        case ast.If(body=[_], orelse=[], test=test):
            is_else = isinstance(ctx.parent(outer), ast.If) and outer in ctx.parent(outer).orelse  # type: ignore[union-attr]
            if not is_else and (isinstance(test, ast.Name) or _only_counts(test)):
                return _outermost(outer, ctx)
        case ast.Try(body=[_], orelse=[], finalbody=[]):
            return _outermost(outer, ctx)
    return statement


def _only_counts(test: ast.expr) -> bool:
    """Whether a condition compares a number of GPUs, as `len(gpus) > 0` does."""
    match test:
        case ast.Compare(left=left, comparators=[ast.Constant()]):
            return _only_counts(left)
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name()]):
            return True
    return False
