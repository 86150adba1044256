"""Operation that XLA cannot compile in a training step.

## What it does

Reports, in a function that `strategy.run` gets, in a `tf.function` with `jit_compile=True`, and in the
functions of the file that such functions call:

- `tf.py_function`, `tf.numpy_function` and `tf.print`;
- `tf.io.read_file`, `tf.io.decode_jpeg` and other functions that decode images;
- `tf.strings.as_string`, `tf.strings.format`, `tf.timestamp`, `tf.linalg.lu`, `tf.linalg.eig` and
  `tf.sparse.sparse_dense_matmul`;
- the method `numpy()` of a tensor.

`print` is not reported: it prints when the function is traced, and not again.

## Why it matters on TPU

XLA compiles the whole function for the TPU, and raises an error for operations that only a CPU has:

- `InvalidArgumentError: Detected unsupported operations when trying to compile graph ...: EagerPyFunc`
- `AttributeError: 'SymbolicTensor' object has no attribute 'numpy'`

These errors were measured with tensorflow-cpu 2.21.0 and XLA for the CPU.

## Fix safety

The fix removes a statement that only calls `tf.print`.
It is unsafe, because the program prints less.

## Without a fix

- Do the work of `tf.py_function` and `tf.numpy_function`, and decode images, in `dataset.map`, which runs on
  the host.
- Return a tensor from the function, and call `numpy()` there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tensorflow_api import HOST_OPERATIONS, STRATEGIES
from tpulint.rules_api import Applicability, Context, Finding, Rule, Scope
from tpulint.rules_api.syntax import dotted

rule = Rule(
    "TF109",
    "operation that XLA cannot compile in a training step",
    module=__name__,
    fix=Applicability.UNSAFE,
)

_PRINT = "tensorflow.print"
_FUNCTION = "tensorflow.function"


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in HOST_OPERATIONS))
def operation(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in HOST_OPERATIONS or not _is_compiled(ctx):
        return
    statement, fix = ctx.statement(call), None
    if name == _PRINT and isinstance(statement, ast.Expr) and statement.value is call:
        title = "remove the call of `tf.print`"
        fix = ctx.rewrite.fix(title, ctx.rewrite.delete(statement), applicability=Applicability.UNSAFE)
    message = f"XLA cannot compile `{name.replace('tensorflow', 'tf', 1)}`, so the step raises on TPU"
    yield ctx.finding(call, message, fix)


@rule.on(ast.Call, named={"numpy"})
def value(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    is_method = isinstance(call.func, ast.Attribute) and not call.args and not call.keywords
    if is_method and _is_compiled(ctx) and any(ctx.names.calls_of({_FUNCTION, *STRATEGIES})):
        yield ctx.finding(call, "a tensor has no `numpy` while XLA compiles the step, so the step raises")


def _is_compiled(ctx: Context) -> bool:
    """Whether XLA compiles the function around the code."""
    function = ctx.scope.function
    return function is not None and function in ctx.once(_compiled)


def _compiled(ctx: Context) -> list[Scope]:
    """The functions of the file that XLA compiles."""
    found = [
        function
        for function in ctx.names.functions
        if isinstance(function.node, ast.FunctionDef) and _is_decorated(function.node, ctx)
    ]
    if any(ctx.names.calls_of(STRATEGIES)):
        for call, at in ctx.calls("run"):
            passed = at.names.called_function(call.args[0]) if call.args else None
            if (
                passed is not None
                and isinstance(call.func, ast.Attribute)
                and _is_strategy(call.func.value, at)
            ):
                found.append(passed)
    for function in found:  # which grows
        inner = ctx.at(function)
        for node in ast.walk(function.node):
            called = inner.names.called_function(node.func) if isinstance(node, ast.Call) else None
            if called is not None and called not in found:
                found.append(called)
    return found


def _is_strategy(owner: ast.expr, ctx: Context) -> bool:
    """Whether an expression is a distribution strategy, by its value or by its name."""
    values = ctx.names.assigned_values(owner)
    if any(isinstance(one, ast.Call) and ctx.names.qualified(one.func) in STRATEGIES for one in values):
        return True
    return (dotted(owner) or "").rpartition(".")[2].endswith("strategy")


def _is_decorated(function: ast.FunctionDef, ctx: Context) -> bool:
    """Whether a function is a `tf.function` with `jit_compile=True`."""
    for one in function.decorator_list:
        if isinstance(one, ast.Call) and ctx.names.qualified(one.func) == _FUNCTION:
            words = {word.arg: word.value for word in one.keywords}
            flag = words.get("jit_compile", words.get("experimental_compile"))
            if isinstance(flag, ast.Constant) and flag.value is True:
                return True
    return False
