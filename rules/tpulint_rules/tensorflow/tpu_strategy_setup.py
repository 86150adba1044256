"""TPU strategy without a TPU system that is initialized before.

## What it does

Reports `tf.distribute.TPUStrategy(resolver)`, where `resolver` is a `TPUClusterResolver` that the same
function creates, if the function:

- does not call `tf.tpu.experimental.initialize_tpu_system`, or calls it only later;
- does not call `tf.config.experimental_connect_to_cluster`, or calls it only after the initialization.

The rule also reports a `TPUStrategy()` without a resolver.

## Why it matters on TPU

A strategy finds the cores of a TPU system that is connected and initialized.
Without that, `TPUStrategy(resolver)` raises `IndexError: index 0 is out of bounds for axis 0 with size 0`,
and `TPUStrategy()` raises `ValueError: Please provide a TPU Name to connect to.`

Initialization also deletes all variables on the TPU, so it comes before everything else.

These errors were measured with tensorflow-cpu 2.21.0, without a TPU.

## Fix safety

The fix adds the missing calls before the strategy, and removes those that come too late.
It is unsafe, because the TPU system may be initialized in another function that runs before.

## Without a fix

Create the strategy in four steps: resolver, connection, initialization, strategy.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tensorflow_api import CONNECT, INITIALIZE, RESOLVER, TPU_STRATEGIES
from tpulint.rules_api import Applicability, Change, Context, Finding, Rule

rule = Rule(
    "TF106",
    "TPU strategy without a TPU system that is initialized before",
    module=__name__,
    fix=Applicability.UNSAFE,
)

_STEPS = (CONNECT, INITIALIZE)


@rule.on(ast.Call, named={"TPUStrategy"})
def strategy(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) not in TPU_STRATEGIES:
        return
    given = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "tpu_cluster_resolver")]
    if not given:
        yield ctx.finding(call, "`TPUStrategy` without a resolver raises; pass a `TPUClusterResolver`")
        return
    if not isinstance(given[0], ast.Name) or not _is_resolver(given[0], ctx):
        return
    statement, resolver = ctx.statement(call), given[0].id
    block = ctx.block(statement)
    calls = {name: _calls(name, ctx) for name in _STEPS}
    if any(ctx.block(ctx.statement(one)) is not block for found in calls.values() for one in found):
        return  # steps under conditions of their own
    wanted = _wanted(calls, statement)
    if not wanted:
        return
    head = ctx.text(call.func).partition(".distribute.")[0]
    lines = [f"{head}{name.removeprefix('tensorflow')}({resolver})" for name in wanted]
    edits: list[Change] = [ctx.rewrite.insert_before(statement, ctx.rewrite.lines(statement, *lines))]
    edits += [ctx.rewrite.delete(ctx.statement(one)) for name in wanted for one in calls[name]]
    fix = None
    alone = all(isinstance(ctx.statement(one), ast.Expr) for name in wanted for one in calls[name])
    if alone and head != ctx.text(call.func):
        title = "add the calls that connect and initialize the TPU system before the strategy"
        fix = ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)
    missing = " and ".join(f"`{name.rpartition('.')[2]}`" for name in wanted)
    yield ctx.finding(call, f"{missing} must be called before `TPUStrategy`, which raises otherwise", fix)


def _is_resolver(name: ast.Name, ctx: Context) -> bool:
    """Whether the enclosing function creates the resolver, by its class alone."""
    found = ctx.names.lookup(name.id)
    if found is None or found[0] is not ctx.scope:
        return False
    values = ctx.names.assigned_values(name)
    return bool(values) and all(
        isinstance(value, ast.Call) and ctx.names.qualified(value.func) == RESOLVER for value in values
    )


def _calls(name: str, ctx: Context) -> list[ast.Call]:
    """The calls of a function in the enclosing function."""
    return [call for call, scope in ctx.names.calls_of({name}) if scope is ctx.scope]


def _wanted(calls: dict[str, list[ast.Call]], statement: ast.stmt) -> list[str]:
    """The steps that do not come before the strategy, in their order."""
    before = {name: [one for one in found if one.lineno < statement.lineno] for name, found in calls.items()}
    if not before[INITIALIZE]:
        return [name for name in _STEPS if not before[name]]
    first = min(one.lineno for one in before[INITIALIZE])
    connected = any(one.lineno < first for one in before[CONNECT])
    return [] if connected else list(_STEPS)
