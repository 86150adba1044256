"""Batches of a data set whose last one is smaller.

## What it does

Reports `dataset.batch(n)` without `drop_remainder=True`, in files with a distribution strategy.
The data set has to come from `tf.data`, as far as the file says.

Batches of one sample, and those after `repeat()`, are not reported.

## Why it matters on TPU

XLA compiles a program for the shapes of its inputs.
The last batch may be smaller than the others, so the shape of the batches is not known: `element_spec` has
the shape `(None, ...)` instead of `(n, ...)`.
Operations that need a static shape then raise an error on TPU, and others are compiled again.

The shapes were measured with tensorflow-cpu 2.21.0.

## Fix safety

The fix passes `drop_remainder=True`.
It is unsafe: the last samples of each epoch are left out.
Data for a test or a validation has no fix, since each sample counts there.

## Without a fix

For a test or a validation, choose a batch size that divides the number of samples, or pad the last batch and
weight its samples with zero.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tpulint.knowledge.tensorflow_api import STRATEGIES
from tpulint.rules_api import Applicability, Context, Finding, Rule

rule = Rule(
    "TF108",
    "batches of a data set whose last one is smaller",
    module=__name__,
    fix=Applicability.UNSAFE,
)

_DATA = ("tensorflow.data.", "tensorflow_datasets.")
_EVALUATION = re.compile(r"test|val|eval|dev|predict", re.IGNORECASE)


@rule.on(ast.Call, named={"batch", "padded_batch"})
def batch(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or any(
        w.arg in (None, "drop_remainder") for w in call.keywords
    ):
        return
    is_padded = call.func.attr == "padded_batch"
    if not (call.args or call.keywords) or len(call.args) > (3 if is_padded else 1):
        return
    if not any(ctx.names.calls_of(STRATEGIES)) or not _is_data(call.func.value, ctx):
        return
    if _is_even(call):
        return
    fix = None
    if not _EVALUATION.search(_named(call, ctx)):
        edit = ctx.rewrite.add_argument(call, "drop_remainder=True")
        title = "leave out the last batch if it is smaller"
        fix = ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)
    size = ctx.text(call.args[0]) if call.args else "n"
    message = (
        f"the last batch may have fewer than `{size}` samples, so its shape is not static, as XLA needs it"
    )
    yield ctx.finding(call, message, fix)


def _is_even(call: ast.Call) -> bool:
    """Whether all batches have the same size: those of one sample, or of a data set that never ends."""
    if call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 1:
        return True
    made: ast.expr = call
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute):
        if made.func.attr == "repeat" and not (made.args or made.keywords):
            return True
        made = made.func.value
    return False


def _is_data(node: ast.expr, ctx: Context) -> bool:
    """Whether the expression is a data set of `tf.data`, with or without further methods."""
    seen: list[str] = []
    while True:
        match node:
            case ast.Call(func=function):
                if (ctx.names.qualified(function) or "").startswith(_DATA):
                    return True
                if not isinstance(function, ast.Attribute):
                    return False
                node = function.value
            case ast.Name(id=name) if name not in seen:
                seen.append(name)
                values = [one for one in ctx.names.assigned_values(node) if not isinstance(one, ast.Name)]
                if not values:
                    return False
                node = values[0]
            case _:
                return False


def _named(call: ast.Call, ctx: Context) -> str:
    """The names that say what the data are for: of the variable, of the data set, and of the function."""
    statement = ctx.statement(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    inner: ast.expr = call
    while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
        inner = inner.func.value
    function = ctx.scope.function.name if ctx.scope.function is not None else ""
    names = [*(ast.unparse(target) for target in targets), ast.unparse(inner), function]
    names += [ctx.text(value) for value in ctx.names.assigned_values(inner)]
    return " ".join(names)
