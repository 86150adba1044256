"""Function of torch_xla that has no equivalent under torchax.

## What it does

Reports uses of functions, classes and constants of torch_xla that no other rule `XLA` reports.

## Why it matters on TPU

Without torch_xla, they do not exist, and torchax cannot use tensors of torch_xla.

## Without a fix

The message names what to use instead, where there is something:

- `torch_xla.distributed.fsdp`: `torch.distributed.fsdp`, which the runtime shards over the devices; see
  [distributed programs](../distributed.md).
- `xm.get_memory_info`: `jax.local_devices()[0].memory_stats()`.
- `xm.get_xla_supported_devices`: `jax.devices()`.
- Custom kernels of `torch_xla.experimental.custom_kernel`: Pallas kernels of JAX, called through
  `torchax.interop.call_jax`.
- `torch_xla.experimental.scan`: `jax.lax.scan`, through `torchax.interop.call_jax`.
- `torch_xla.stablehlo`: `torchax.export`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.torch_xla import (
    FUNCTIONS,
    MODULES,
    PACKAGE,
    REDUCTIONS,
    REPLACEMENTS,
    SYNCFREE,
    short_name,
)
from tpulint.rules_api import Context, Finding, Rule
from tpulint.rules_api.syntax import imports_package

rule = Rule(
    "XLA115",
    "function of `torch_xla` that has no equivalent under torchax",
    module=__name__,
    fix=None,
)


def _of_package(node: ast.Import | ast.ImportFrom) -> bool:
    return imports_package(node, PACKAGE)


@rule.on(ast.Import, where=_of_package)
def imported(node: ast.Import, ctx: Context) -> Iterator[Finding]:
    yield from _uses(node, ctx)


@rule.on(ast.ImportFrom, where=_of_package)
def imported_from(node: ast.ImportFrom, ctx: Context) -> Iterator[Finding]:
    yield from _uses(node, ctx)


def _uses(node: ast.Import | ast.ImportFrom, ctx: Context) -> Iterator[Finding]:
    imports = ctx.once(_imports)
    if node is not imports[0] or not ctx.program.runs_on_torch_xla:
        return
    bound = {alias.asname or alias.name.partition(".")[0] for one in imports for alias in one.names}
    for name in sorted(bound):
        for use in ctx.names.loads(name):
            yield from _used(use, _around(use, ctx))


def _imports(ctx: Context) -> list[ast.Import | ast.ImportFrom]:
    """The imports of torch_xla in the file, in the order of their lines."""
    nodes = (node for node in ast.walk(ctx.tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return sorted(filter(_of_package, nodes), key=lambda node: node.lineno)


def _around(use: ast.Name, ctx: Context) -> Context:
    """The file at the function of a use, where its names mean what they mean there."""
    found = (ctx.names.function(outer) for outer in ctx.ancestors(use))
    return ctx.at(next((scope for scope in found if scope is not None), ctx.names.module_scope))


def _used(use: ast.Name, ctx: Context) -> Iterator[Finding]:
    whole, short = _dotted(use, ctx)
    if short is None or short == PACKAGE or short in MODULES or _is_reported(whole, short, ctx):
        return
    if short in FUNCTIONS:
        yield ctx.finding(whole, f"`{short}` is passed on as a function; call it here instead")
        return
    message = f"`{short}` belongs to `torch_xla`, and has no equivalent under torchax"
    instead = next((new for old, new in REPLACEMENTS.items() if short.startswith(old)), None)
    yield ctx.finding(whole, message if instead is None else f"{message}; use {instead} instead")


def _dotted(use: ast.expr, ctx: Context) -> tuple[ast.expr, str | None]:
    """The longest dotted name that begins with a name, and its short form."""
    outer = ctx.parent(use)
    while isinstance(outer, ast.Attribute):
        if ctx.names.qualified(outer) is None or short_name(ctx.names.qualified(use)) in FUNCTIONS:
            break
        use, outer = outer, ctx.parent(outer)
    return use, short_name(ctx.names.qualified(use))


def _is_reported(whole: ast.expr, short: str, ctx: Context) -> bool:
    """Whether another rule reports the use: a call, a decorator, or a type of reduction."""
    outer = ctx.parent(whole)
    is_called = isinstance(outer, ast.Call) and outer.func is whole
    is_decorator = isinstance(outer, ast.FunctionDef) and whole in outer.decorator_list
    return short in REDUCTIONS or short in SYNCFREE or (short in FUNCTIONS and (is_called or is_decorator))
