"""Check whether TensorFlow finds a GPU.

## What it does

Reports:

- `tf.test.is_gpu_available()`, `tf.test.gpu_device_name()`, `tf.test.is_built_with_cuda()` and
  `tf.test.is_built_with_gpu_support()`;
- a condition on the GPUs that `tf.config.list_physical_devices("GPU")` or
  `tf.config.list_logical_devices("GPU")` returns.

The rule does not report a condition for code that only configures GPUs, and nothing in files that use a
`TPUStrategy`, or with the setting `keep-gpu`.

## Why it matters on TPU

A TPU host has no GPU, so the check fails: the program continues on the CPU, or ends.

## Without a fix

Create a `tf.distribute.TPUStrategy` where the program chooses between a GPU and the CPU.
After `tf.tpu.experimental.initialize_tpu_system(...)`, `tf.config.list_logical_devices("TPU")` lists the
cores of the TPU.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tensorflow_api import CHECKS, GPU_SETTINGS, LISTS, TPU_STRATEGIES, is_gpu_device
from tpulint.rules_api import Context, Effort, Finding, Rule

rule = Rule(
    "TF104",
    "check whether TensorFlow finds a GPU",
    module=__name__,
    fix=None,
    effort=Effort.MINUTES,
)

_MESSAGE = 'finds no GPU on a TPU host; look for TPUs, with `tf.config.list_logical_devices("TPU")`'
_SETTINGS = frozenset(name.rpartition(".")[2] for name in GPU_SETTINGS)
_TESTED = ast.If | ast.IfExp | ast.While | ast.Assert


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in CHECKS))
def check(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name in CHECKS and _is_reported(ctx):
        yield ctx.finding(call, f"`tf.test.{name.rpartition('.')[2]}` {_MESSAGE}")


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in LISTS))
def listed(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in LISTS or not call.args or not _is_reported(ctx):
        return
    if not any(map(is_gpu_device, ctx.program.texts(call.args[0]))):
        return
    for use in (call, *_uses(call, ctx)):
        condition = _condition(use, ctx)
        if condition is not None and not _configures(condition):
            short = name.rpartition(".")[2]
            yield ctx.finding(use, f'`{short}("GPU")` {_MESSAGE}')
            return


def _is_reported(ctx: Context) -> bool:
    return not ctx.program.keeps_cuda and not any(ctx.names.calls_of(TPU_STRATEGIES))


def _uses(call: ast.Call, ctx: Context) -> list[ast.Name]:
    """The reads of the variable that the list is assigned to, after it in the same function."""
    match ctx.statement(call):
        case ast.Assign(targets=[ast.Name(id=name)]) as statement:
            return ctx.names.loads_after(name, statement)
    return []


def _condition(node: ast.expr, ctx: Context) -> ast.AST | None:
    """The statement or expression that the node is a condition of."""
    inner: ast.AST = node
    for outer in ctx.ancestors(node):
        if isinstance(outer, _TESTED):
            return outer if outer.test is inner else None
        is_passed_on = isinstance(outer, ast.Compare | ast.BoolOp | ast.UnaryOp)
        counts = (
            isinstance(outer, ast.Call)
            and isinstance(outer.func, ast.Name)
            and outer.func.id in ("len", "bool")
        )
        if not is_passed_on and not counts:
            return None
        inner = outer
    return None


def _configures(condition: ast.AST) -> bool:
    """Whether the code that depends on a condition configures GPUs."""
    calls = (node.func for node in ast.walk(condition) if isinstance(node, ast.Call))
    return any(isinstance(one, ast.Attribute) and one.attr in _SETTINGS for one in calls)
