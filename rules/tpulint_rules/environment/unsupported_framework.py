"""Framework that does not run on TPU.

## What it does

Reports a file that uses one of these libraries, and none of PyTorch, JAX and TensorFlow:

- the frameworks MXNet (with GluonCV and GluonNLP), PaddlePaddle, Chainer, Theano, CNTK, Caffe, OneFlow,
  MindSpore, Jittor and MegEngine;
- CUDA kernels in Python: `numba.cuda`;
- RAPIDS: `cudf`, `cuml`, `cugraph` and `rmm`;
- NVIDIA DALI, and ONNX Runtime.

The file is reported once, at the first import.

## Why it matters on TPU

None of these libraries runs on TPU, and tpulint has no rules for them.
Without this finding, a file that was not analyzed would look like one that needs no changes.
The summary of `tpulint check` counts these files.

Nothing was executed: the libraries cannot run on TPU, and need no example of it.

## Without a fix

- Write a model in PyTorch, or in JAX.
- Write a kernel for `numba.cuda` with operations of JAX, or in JAX's Pallas.
- Load data with PyTorch or `tf.data` instead of DALI, and prepare tables with pandas on the host.
- A model for ONNX Runtime runs on the CPU; convert it to JAX or PyTorch to run it on TPU.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.unsupported_frameworks import ON_TPU, UNSUPPORTED
from tpulint.rules_api import Context, Effort, Finding, Rule

rule = Rule(
    "TPU003",
    "framework that does not run on TPU",
    module=__name__,
    fix=None,
    effort=Effort.DAYS,
)


@rule.on(ast.Import)
def imported(node: ast.Import, ctx: Context) -> Iterator[Finding]:
    yield from _checked(node, [alias.name for alias in node.names], ctx)


@rule.on(ast.ImportFrom)
def imported_from(node: ast.ImportFrom, ctx: Context) -> Iterator[Finding]:
    if not node.level:
        names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from _checked(node, names, ctx)


def _checked(node: ast.Import | ast.ImportFrom, names: list[str], ctx: Context) -> Iterator[Finding]:
    found = next((one for one in UNSUPPORTED for name in names if _is_within(name, one)), None)
    if found is None or ctx.names.first_import(found.partition(".")[0]) is None:
        return
    used = {name.partition(".")[0] for name in ctx.program.file_imports}
    if used & ON_TPU or ctx.once(_first) is not node:
        return
    yield ctx.finding(
        node, f"`{found}` does not run on TPU, and tpulint has no rules for it: {UNSUPPORTED[found]}"
    )


def _first(ctx: Context) -> ast.stmt | None:
    """The first import of such a library in the file."""
    for node in ast.walk(ctx.tree):
        match node:
            case ast.Import(names=aliases):
                names = [alias.name for alias in aliases]
            case ast.ImportFrom(module=str() as module, level=0, names=aliases):
                names = [module, *(f"{module}.{alias.name}" for alias in aliases)]
            case _:
                continue
        optional = ctx.names.first_import(names[0].partition(".")[0]) is None
        if not optional and any(_is_within(name, one) for name in names for one in UNSUPPORTED):
            return node
    return None


def _is_within(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")
