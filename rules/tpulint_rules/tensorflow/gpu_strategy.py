"""Distribution strategy for GPUs.

## What it does

Reports these strategies of `tf.distribute`, in files without a `TPUStrategy`:

- `MirroredStrategy` and `experimental.CentralStorageStrategy`;
- `OneDeviceStrategy` with a GPU;
- `MultiWorkerMirroredStrategy` and `ParameterServerStrategy`.

The rule also reports imports of `horovod.tensorflow` and `horovod.keras`.

## Why it matters on TPU

These strategies do not use TPUs.
On a host without a GPU, `MirroredStrategy()` raises no error: it trains on the CPU, as one replica.

This was measured with tensorflow-cpu 2.21.0.

## Fix safety

The fix connects to the TPU system of the host, initializes it, and creates a `tf.distribute.TPUStrategy`.
The arguments of the former strategy are removed.

The fix is unsafe: the program then needs a TPU, and each batch is divided among the cores of the TPU.
With `tpu="local"`, TensorFlow uses the TPU that is attached to the host, as on a Cloud TPU VM and in Colab.
For a TPU that is reached over the network, write its name or address instead.

The rule has no fix with the setting `keep-gpu`.

## Without a fix

A second strategy in the same block has no fix: use the first one for both, because each initialization of the
TPU system deletes the variables on it.

Strategies for several hosts have no fix.
All hosts of a TPU slice run one program with one `TPUStrategy`, without `TF_CONFIG` and without parameter
servers.

Horovod has no fix.
Remove its calls, and divide the work with a `TPUStrategy`: `hvd.size()` is `strategy.num_replicas_in_sync`,
and `hvd.DistributedOptimizer(optimizer)` is `optimizer`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tensorflow_api import (
    CONNECT,
    GPU_STRATEGIES,
    INITIALIZE,
    ONE_DEVICE,
    RESOLVER,
    SEVERAL_HOSTS,
    TPU_STRATEGIES,
    is_gpu_device,
)
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule

rule = Rule(
    "TF101",
    "distribution strategy for GPUs",
    module=__name__,
    fix=Applicability.UNSAFE,
)

_HOROVOD = "`horovod` does not use TPUs; all cores of a host are used by one `tf.distribute.TPUStrategy`"
_NAMES = GPU_STRATEGIES | SEVERAL_HOSTS | {ONE_DEVICE}


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in _NAMES))
def strategy(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in _NAMES or any(ctx.names.calls_of(TPU_STRATEGIES)):
        return
    short = name.rpartition(".")[2]
    if name == ONE_DEVICE:
        devices = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "device")]
        if not any(map(is_gpu_device, (text for one in devices for text in ctx.program.texts(one)))):
            return
    if name in SEVERAL_HOSTS:
        message = f"`{short}` does not use TPUs; all hosts of a TPU slice use one `tf.distribute.TPUStrategy`"
        yield ctx.finding(call, message)
        return
    message = f"`{short}` does not use TPUs, and computes on the CPU of a TPU host"
    yield ctx.finding(call, message, None if _follows_another(call, ctx) else _fix(call, short, ctx))


@rule.on(ast.Import, where=lambda node: any(map(_is_horovod, (alias.name for alias in node.names))))
def imported(node: ast.Import, ctx: Context) -> Iterator[Finding]:
    if not ctx.names.is_optional_import(node):
        yield ctx.finding(node, _HOROVOD)


@rule.on(ast.ImportFrom, where=lambda node: _is_horovod(node.module or ""))
def imported_from(node: ast.ImportFrom, ctx: Context) -> Iterator[Finding]:
    if not ctx.names.is_optional_import(node):
        yield ctx.finding(node, _HOROVOD)


def _is_horovod(name: str) -> bool:
    return name.startswith(("horovod.keras", "horovod.tensorflow"))


def _follows_another(call: ast.Call, ctx: Context) -> bool:
    """Whether a strategy in the same block comes before, which initializes the TPU system."""
    statement = ctx.statement(call)
    return any(
        other.lineno < call.lineno and ctx.block(ctx.statement(other)) is ctx.block(statement)
        for other, _ in ctx.names.calls_of(GPU_STRATEGIES)
    )


def _fix(call: ast.Call, short: str, ctx: Context) -> Fix | None:
    statement = ctx.statement(call)
    if ctx.program.keeps_cuda or not isinstance(
        statement, ast.Assign | ast.AnnAssign | ast.Return | ast.Expr | ast.With
    ):
        return None
    imports = ctx.rewrite.imports("import tensorflow as tf")
    head = ctx.text(call.func).partition(".distribute.")[0]
    if imports is None or ctx.names.qualified(ast.Name(head, ast.Load())) != "tensorflow":
        head = "tf"
    else:
        imports = ()
    if imports is None:
        return None
    resolver = ctx.rewrite.new_name("resolver")
    lines = [
        f'{resolver} = {_in(head, RESOLVER)}(tpu="local")',
        f"{_in(head, CONNECT)}({resolver})",
        f"{_in(head, INITIALIZE)}({resolver})",
    ]
    edits = [
        ctx.rewrite.insert_before(statement, ctx.rewrite.lines(statement, *lines)),
        ctx.rewrite.replace(call, f"{head}.distribute.TPUStrategy({resolver})"),
    ]
    title = f"replace `{short}` with `TPUStrategy`"
    return ctx.rewrite.fix(title, *edits, *imports, applicability=Applicability.UNSAFE)


def _in(head: str, name: str) -> str:
    """A qualified name, as the file writes it."""
    return f"{head}{name.removeprefix('tensorflow')}"
