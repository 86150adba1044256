"""Keras model that is created outside of the scope of its strategy.

## What it does

Reports a Keras model that is trained, and is created after a distribution strategy, in the same block, but
not under `with strategy.scope():`.
The model may also be created by a function, and is recognized by its call of `compile` then.

## Why it matters on TPU

The variables of such a model are not variables of the strategy:

- If the model is compiled outside of the scope as well, it is trained on the CPU, without an error.
- If the model is compiled in the scope, or trained by `strategy.run`, training raises `AssertionError`, or
  `RuntimeError: Need to be inside "with strategy.scope()"`.

This was measured with tensorflow-cpu 2.21.0 and Keras 3.15.1, with a strategy of several CPU devices.

## Fix safety

The fix puts the statement, and the calls of `add`, `build` and `compile` of the model that follow, under
`with strategy.scope():`.
The fix is unsafe: the model is then trained on all cores of the TPU, and each core gets a part of each batch.

## Without a fix

Put the statements that create the model and its optimizer under `with strategy.scope():`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tensorflow_api import STRATEGIES
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule
from tpulint.rules_api.syntax import is_name

rule = Rule(
    "TF107",
    "model of Keras that is created outside of the scope of its strategy",
    module=__name__,
    fix=Applicability.UNSAFE,
)

_LAST = frozenset(name.rpartition(".")[2] for name in STRATEGIES)
_TRAINING = frozenset({"fit", "train_on_batch", "trainable_variables", "trainable_weights"})
_PREPARING = frozenset({"add", "build", "compile", "summary"})


@rule.on(ast.Call, named=_LAST)
def strategy(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    statement = ctx.statement(call)
    if ctx.names.qualified(call.func) not in STRATEGIES or not isinstance(statement, ast.Assign):
        return
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or statement.value is not call:
        return
    block = ctx.block(statement)
    place = block.index(statement) + 1
    for number, made in enumerate(block[place:], place):
        if _makes_strategy(made, ctx):
            return  # whose models are reported with it
        name = _model(made, ctx)
        if name is not None:
            message = f"`{name}` is created outside of `{target.id}.scope()`, so it is not trained on the TPU"
            yield ctx.finding(made, message, _fix(block, number, name, target.id, ctx))


def _makes_strategy(statement: ast.stmt, ctx: Context) -> bool:
    match statement:
        case ast.Assign(value=ast.Call() as call):
            return ctx.names.qualified(call.func) in STRATEGIES
    return False


def _trains(use: ast.Name, ctx: Context) -> bool:
    outer = ctx.parent(use)
    return isinstance(outer, ast.Attribute) and outer.attr in _TRAINING


def _model(statement: ast.stmt, ctx: Context) -> str | None:
    """The name of the model that a statement creates, if it is trained."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
            is_trained = any(_trains(use, ctx) for use in ctx.names.loads(name))
            return name if is_trained and ctx.types.is_new_keras_model(call) else None
    return None


def _fix(block: list[ast.stmt], number: int, name: str, strategy: str, ctx: Context) -> Fix | None:
    count = 1
    while number + count < len(block) and _prepares(block[number + count], name):
        count += 1
    first, last = block[number], block[number + count - 1]
    text = ctx.source.text[ctx.span(first).start : ctx.span(last).end]
    margin = ctx.source.margin(first)
    if '"""' in text or "'''" in text or "\\\n" in text:
        return None
    rows = [row.removeprefix(margin) for row in text.splitlines()]
    rows = [f"{margin}{ctx.source.indent}{row}" if row.strip() else "" for row in rows]
    code = ctx.source.newline.join([f"with {strategy}.scope():", *rows])
    title = f"create the model under `{strategy}.scope()`"
    edit = ctx.rewrite.replace_run(block[number], count, code)
    return ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)


def _prepares(statement: ast.stmt, name: str) -> bool:
    """Whether a statement adds to the model or compiles it."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=method))):
            return is_name(owner, name) and method in _PREPARING
        case ast.Assign(targets=[ast.Name()], value=ast.Call(func=ast.Attribute() as function)):
            return "optimizers" in ast.unparse(function)
    return False
