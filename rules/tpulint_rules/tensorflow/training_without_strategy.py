"""Keras model that is trained without a strategy.

## What it does

Reports `model.fit(...)` of a Keras model that the same block creates, in a file without a distribution
strategy.
The model may also be created by a function of the file.

## Why it matters on TPU

On a host with a GPU, TensorFlow uses the GPU without being asked.
It uses a TPU only in a `tf.distribute.TPUStrategy`, and otherwise trains on the CPU, without an error.

## Fix safety

The fix connects to the TPU system of the host, initializes it, and creates a `TPUStrategy` before the model.
[TF107](model-outside-scope.md) then creates the model under `strategy.scope()`.

The fix is unsafe: the program then needs a TPU, and each batch is divided among the cores of the TPU.
For a TPU that is reached over the network, write its name or address instead of `"local"`.

The rule reports nothing with the setting `keep-gpu`.

## Without a fix

If the name `tf` means something else in the file, or if the model is created in several places, write the
strategy by hand.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tensorflow_api import CONNECT, INITIALIZE, MODELS, RESOLVER, STRATEGIES
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule

rule = Rule(
    "TF112",
    "model of Keras that is trained without a strategy",
    module=__name__,
    fix=Applicability.UNSAFE,
)


@rule.on(ast.Call, named={"fit"})
def fit(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, ast.Name):
        return
    if ctx.program.keeps_cuda or _has_strategy(ctx):
        return
    model = call.func.value
    created = [value for value in ctx.names.assigned_values(model) if _creates(value, ctx)]
    block = ctx.block(ctx.statement(call))
    statements = [ctx.statement(value) for value in created]
    if not statements or any(one not in block for one in statements):
        return
    message = f"no strategy uses the TPU, so `{model.id}.fit` trains on the CPU of a TPU host"
    yield ctx.finding(call, message, _fix(statements[0], ctx) if len(statements) == 1 else None)


def _has_strategy(ctx: Context) -> bool:
    """Whether the file uses a strategy, of its own or of its caller."""
    named = any(True for name in ("strategy", "distribution") for _ in ctx.names.loads(name))
    return named or ctx.names.has_call("scope") or any(ctx.names.calls_of(STRATEGIES))


def _creates(value: ast.expr, ctx: Context) -> bool:
    """Whether the value is a new Keras model of TensorFlow."""
    if not isinstance(value, ast.Call):
        return False
    name = ctx.names.qualified(value.func) or ""
    if name.startswith("tensorflow."):
        return name in MODELS or name.startswith("tensorflow.keras.applications.")
    function = ctx.names.called_function(value.func)
    if function is None or not isinstance(function.node, ast.FunctionDef):
        return False
    inner = ctx.at(function)
    calls = (node for node in ast.walk(function.node) if isinstance(node, ast.Call))
    return any(inner.names.qualified(one.func) in MODELS for one in calls)


def _fix(statement: ast.stmt, ctx: Context) -> Fix | None:
    imports = ctx.rewrite.imports("import tensorflow as tf")
    if imports is None:
        return None
    resolver, strategy = ctx.rewrite.new_name("resolver"), ctx.rewrite.new_name("strategy")
    lines = [
        f'{resolver} = {_short(RESOLVER)}(tpu="local")',
        f"{_short(CONNECT)}({resolver})",
        f"{_short(INITIALIZE)}({resolver})",
        f"{strategy} = tf.distribute.TPUStrategy({resolver})",
    ]
    edit = ctx.rewrite.insert_before(statement, ctx.rewrite.lines(statement, *lines))
    title = "create a `TPUStrategy` before the model"
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)


def _short(name: str) -> str:
    """A qualified name, as the fix writes it."""
    return name.replace("tensorflow", "tf", 1)
