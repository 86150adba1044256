"""Metrics, profiler or compilation cache of torch_xla.

## What it does

Reports functions of `torch_xla.debug.metrics`, such as `met.metrics_report()`, functions of
`torch_xla.debug.profiler`, and `xr.initialize_cache`.

## Why it matters on TPU

Without torch_xla, these functions do not exist.
torchax does not count operations or compilations. JAX has a profiler and a compilation cache of its own.

## Fix safety

The fix is unsafe, because it is a part of the change from torch_xla to torchax.

- The fix removes a statement that only prints, logs or clears metrics.
  To see what JAX compiles, set the environment variable `JAX_LOG_COMPILES=1`.
- `xp.start_server(port)`, `xp.start_trace(folder)`, `xp.stop_trace()`, `xp.Trace(name)` and
  `xp.StepTrace(name)` become functions of `jax.profiler`.
- `xr.initialize_cache(folder)` becomes `jax.config.update("jax_compilation_cache_dir", folder)`.

## Without a fix

If the program computes with a metric, such as the number of compilations, remove this code, or listen to
events with `jax.monitoring`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.torch_xla import METRICS, PROFILER, short_name
from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Rule

rule = Rule(
    "XLA110",
    "metrics, profiler or compilation cache of `torch_xla`",
    module=__name__,
    fix=Applicability.UNSAFE,
)

_STEP, _SERVER, _CACHE = "xp.StepTrace", "xp.start_server", "xr.initialize_cache"
_NEW = PROFILER | {_STEP: "jax.profiler.StepTraceAnnotation", _SERVER: "jax.profiler.start_server"}
_CALLS = METRICS | _NEW.keys() | {_CACHE}


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in _CALLS))
def measured(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = short_name(ctx.names.qualified(call.func))
    if name not in _CALLS or not ctx.program.runs_on_torch_xla:
        return
    if name in METRICS:
        message = f"`{name}` reports what `torch_xla` counted, and torchax counts nothing"
        yield ctx.finding(call, message, _unreported(call, ctx))
    else:
        message = f"`{name}` serves `torch_xla` only; JAX has a function of its own"
        yield ctx.finding(call, message, _of_jax(call, name, ctx))


def _unreported(call: ast.Call, ctx: Context) -> Fix | None:
    """The fix that removes a statement that only prints metrics; None for other uses."""
    statement = ctx.statement(call)
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    whole = statement.value
    if whole is not call:
        others = [one for one in (*whole.args, *(word.value for word in whole.keywords)) if one is not call]
        if len(others) == len(whole.args) + len(whole.keywords):
            return None  # it is deeper in the statement
        if not all(isinstance(one, ast.Constant) for one in others):
            return None
    title = "remove the statement that reports metrics of `torch_xla`"
    return ctx.rewrite.fix(title, ctx.rewrite.delete(statement), applicability=Applicability.UNSAFE)


def _of_jax(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    imports = ctx.rewrite.imports("import jax")
    if imports is None:
        return None
    edits: list[Change]
    if name == _CACHE:
        given = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "path")]
        if not given:
            return None
        new = f'jax.config.update("jax_compilation_cache_dir", {ctx.text(given[0])})'
        edits = [ctx.rewrite.replace(call, new)]
        title = "set the folder of JAX's compilation cache"
    else:
        edits = [ctx.rewrite.replace(call.func, _NEW[name])]
        edits += ctx.rewrite.without_keywords(call, {"only_on_master"})
        title = f"replace `{name}` with `{_NEW[name]}`"
    return ctx.rewrite.fix(title, *edits, *imports, applicability=Applicability.UNSAFE)
