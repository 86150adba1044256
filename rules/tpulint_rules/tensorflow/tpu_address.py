"""Outdated way to find a TPU.

## What it does

Reports:

- `tf.distribute.cluster_resolver.TPUClusterResolver()` without the name of a TPU, and its method `connect()`;
- the environment variable `COLAB_TPU_ADDR`, in files that import TensorFlow;
- `tf.config.experimental_connect_to_host(resolver.master())`.

## Why it matters on TPU

Today, the TPU is attached to the host, on a Cloud TPU VM as well as in Colab:

- `TPUClusterResolver()` raises `ValueError: Please provide a TPU Name to connect to.`
- No system sets `COLAB_TPU_ADDR`, so `os.environ["COLAB_TPU_ADDR"]` raises `KeyError`, and a program that
  looks for this variable says that there is no TPU.

These errors were measured with tensorflow-cpu 2.21.0, without a TPU.
Users of Colab report the first one on hosts with a TPU.

## Fix safety

The fix passes `tpu="local"`, which stands for the TPU that is attached to the host.
It replaces an address that is read from `COLAB_TPU_ADDR` with `"local"`, and a check for the variable with a
check for a TPU system.

The fix is unsafe: a TPU that is reached over the network has a name or an address, which only you know.

## Without a fix

Pass `tpu="local"` to `TPUClusterResolver`, and remove other uses of `COLAB_TPU_ADDR`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tensorflow_api import CONNECT, RESOLVER
from tpulint.rules_api import Applicability, Change, Context, Finding, Rule

rule = Rule(
    "TF105",
    "outdated way to find a TPU",
    module=__name__,
    fix=Applicability.UNSAFE,
)

_MESSAGE = '`TPUClusterResolver` needs the name of a TPU; one that is attached to the host is `"local"`'
_VARIABLE = "COLAB_TPU_ADDR"
_READERS = frozenset({"os.environ.get", "os.getenv"})


@rule.on(ast.Call, named={"TPUClusterResolver"})
def resolver(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != RESOLVER or any(word.arg is None for word in call.keywords):
        return
    given = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "tpu")]
    edit: Change
    if not given:
        edit = ctx.rewrite.add_argument(call, 'tpu="local"', 0)
    elif isinstance(given[0], ast.Constant) and not given[0].value:
        edit = ctx.rewrite.replace(given[0], '"local"')
    else:
        return
    fix = ctx.rewrite.fix('pass `tpu="local"`', edit, applicability=Applicability.UNSAFE)
    yield ctx.finding(call, _MESSAGE, fix)


@rule.on(ast.Call, named={"connect"})
def connect(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) == f"{RESOLVER}.connect" and not (call.args or call.keywords):
        edit = ctx.rewrite.add_argument(call, 'tpu="local"')
        fix = ctx.rewrite.fix('pass `tpu="local"`', edit, applicability=Applicability.UNSAFE)
        yield ctx.finding(call, _MESSAGE, fix)


@rule.on(ast.Call, named={"experimental_connect_to_host"})
def connected(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "tensorflow.config.experimental_connect_to_host":
        return
    fix = None
    match call.args:
        case [ast.Call(func=ast.Attribute(value=owner, attr="master"), args=[]) as master]:
            new = CONNECT.rpartition(".")[2]
            edits = ctx.rewrite.rename(call.func, new), ctx.rewrite.replace(master, ctx.text(owner))
            fix = ctx.rewrite.fix(f"use `{new}`", *edits, applicability=Applicability.UNSAFE)
    message = "`experimental_connect_to_host` needs an address, which a TPU in the same host does not have"
    yield ctx.finding(call, message, fix)


@rule.on(ast.Constant, named={_VARIABLE})
def variable(node: ast.Constant, ctx: Context) -> Iterator[Finding]:
    if not any(name.partition(".")[0] == "tensorflow" for name in ctx.program.file_imports):
        return  # torch_xla has other ways to find a TPU
    outer = ctx.parent(node)
    message = f"nothing sets the environment variable `{_VARIABLE}` where the TPU is attached to the host"
    edits: list[Change] = []
    match outer:
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if left is node:
            imports = ctx.rewrite.imports("import tensorflow as tf")
            if ctx.names.qualified(right) != "os.environ" or imports is None:
                return
            word = "not " if isinstance(operator, ast.NotIn) else ""
            code = f'{word}tf.config.list_physical_devices("TPU_SYSTEM")'
            edits = [ctx.rewrite.replace(outer, ctx.rewrite.grouped(outer, code) if word else code)]
            fix = ctx.rewrite.fix(
                "find a TPU system instead", *edits, *imports, applicability=Applicability.UNSAFE
            )
            yield ctx.finding(outer, message, fix)
            return
        case ast.Subscript() if ctx.names.qualified(outer.value) == "os.environ":
            if not isinstance(outer.ctx, ast.Load):
                return
        case ast.Call() if ctx.names.qualified(outer.func) in _READERS:
            pass
        case _:
            return
    address = _address(outer, ctx)
    edit = ctx.rewrite.replace(address, '"local"')
    fix = ctx.rewrite.fix('use the address `"local"`', edit, applicability=Applicability.UNSAFE)
    yield ctx.finding(outer, message, None if _is_asked(address, ctx) else fix)


def _address(node: ast.expr, ctx: Context) -> ast.expr:
    """The address that is made of the value of the variable, as in `"grpc://" + os.environ[...]`."""
    for outer in ctx.ancestors(node):
        match outer:
            case ast.BinOp(op=ast.Add(), left=ast.Constant(value=str() as text)) if text.startswith("grpc:"):
                return outer
            case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str() as text)) if text.startswith("grpc:"):
                return outer
            case ast.JoinedStr():
                return outer
            case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant())):
                return outer
            case ast.stmt():
                break
    return node


def _is_asked(node: ast.expr, ctx: Context) -> bool:
    """Whether the value is only compared or tested."""
    return isinstance(ctx.parent(node), ast.Compare | ast.If | ast.IfExp | ast.BoolOp | ast.UnaryOp)
