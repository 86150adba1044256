"""Keras model that is trained without a strategy.

## What it does

Reports `model.fit(...)` of a Keras model that the same block creates, in a file that imports TensorFlow and
has no distribution strategy.
The first training in each function is reported.
The model may also be created by a function, and is recognized by its call of `compile` then.

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

- If several functions of the file train a model, create one strategy for all of them by hand, because each
  initialization of the TPU system deletes the variables on it.
- If the name `tf` means something else in the file, or if the model is created in several places, write the
  strategy by hand.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tensorflow_api import CONNECT, INITIALIZE, RESOLVER, STRATEGIES
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule, Scope

rule = Rule(
    "TF112",
    "model of Keras that is trained without a strategy",
    module=__name__,
    fix=Applicability.UNSAFE,
)


@rule.on(ast.Call, named={"fit"})
def fit(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.program.keeps_cuda or not _uses_tensorflow(ctx) or _has_strategy(ctx):
        return
    found = ctx.once(_trained)
    model = found.get(call)
    if model is None:
        return
    message = f"no strategy uses the TPU, so `{ctx.text(call.func)}` trains on the CPU of a TPU host"
    yield ctx.finding(call, message, _fix(model, ctx) if len(found) == 1 else None)


def _trained(ctx: Context) -> dict[ast.Call, ast.stmt | None]:
    """The first training of a new model in each function, with the one statement that creates the model."""
    found: dict[ast.Call, ast.stmt | None] = {}
    scopes: list[Scope] = []
    for call, at in sorted(ctx.calls("fit"), key=lambda one: one[0].lineno):
        if at.scope not in scopes and isinstance(call.func, ast.Attribute):
            values = (
                at.names.assigned_values(call.func.value) if isinstance(call.func.value, ast.Name) else []
            )
            made = [one for one in values if isinstance(one, ast.Call) and at.types.is_new_keras_model(one)]
            statements = [ctx.statement(one) for one in made]
            if statements and all(one in ctx.block(ctx.statement(call)) for one in statements):
                scopes.append(at.scope)
                found[call] = statements[0] if len(statements) == 1 else None
    return found


def _uses_tensorflow(ctx: Context) -> bool:
    """Whether the file imports TensorFlow; Keras alone may compute with JAX or PyTorch."""
    return any(name.partition(".")[0] == "tensorflow" for name in ctx.program.file_imports)


def _has_strategy(ctx: Context) -> bool:
    """Whether the file uses a strategy, of its own or of its caller."""
    named = any(True for name in ("strategy", "distribution") for _ in ctx.names.loads(name))
    return named or ctx.names.has_call("scope") or any(ctx.names.calls_of(STRATEGIES))


def _fix(statement: ast.stmt | None, ctx: Context) -> Fix | None:
    imports = ctx.rewrite.imports("import tensorflow as tf")
    if imports is None or statement is None:
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
