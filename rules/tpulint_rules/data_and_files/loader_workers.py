"""`DataLoader` with worker processes.

## What it does

The rule reports `DataLoader(..., num_workers=n)` in programs that put tensors on a CUDA or torchax device,
unless `n` is known to be 0.

- The value of `n` is known if `n` is an integer literal.
  The value is also known if `n` is a variable, a parameter or a command-line option, and the same file gives
  its value or default.
- A value from a configuration or from another file is unknown, and counts as more than 0.
- The rule also reports `{"num_workers": n}` in a file that unpacks a dictionary into a `DataLoader`, as in
  `DataLoader(data, **options)`.

The rule does not report programs that train, because the fix of TPU611 (`backward-on-torchax`) adds the
runtime torchax-compat to these programs.
The runtime creates each batch in the main process, and draws the same random numbers that a worker process
would draw for this batch.

## Why it matters on TPU

The torchax environment also changes the torch functions that a `DataLoader` uses, so a `DataLoader` with
worker processes fails:

- Workers that are forked inside the environment hang without a message, or fail with
  `OperatorNotFound: Operator with name aten::set_.source_Storage has no lowering`.
- With the start methods `forkserver` and `spawn`, the main process raises the same `OperatorNotFound` error
  when it fetches a batch.

## Fix safety

The fix is unsafe: it removes the worker processes.

- The main process creates the batches, so the device may wait for a batch.
- Random transforms draw different numbers, because each worker had its own seed.
- If a configuration or a command-line option sets the number of workers, this setting no longer has an
  effect.

## Without a fix

If batches take long to create, keep the workers, and leave the torchax environment while you fetch a batch:

```python
def batches(loader):
    torchax.disable_globally()
    rows = iter(loader)
    torchax.enable_globally()
    while True:
        torchax.disable_globally()
        try:
            row = next(rows)
        except StopIteration:
            return
        finally:
            torchax.enable_globally()
        yield row
```

`for x, y in batches(loader)` then works with the start methods `fork`, `forkserver` and `spawn`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.training import LOADERS
from tpulint.rules_api import Applicability, Context, Finding, Rule, Static

rule = Rule("TPU707", "`DataLoader` with worker processes", module=__name__, fix=Applicability.UNSAFE)

#: What a loader without workers does not take.
_OF_WORKERS = frozenset(
    {"num_workers", "prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout"}
)
#: What the options are then, where they are kept in a dictionary.
_WITHOUT = {"num_workers": "0", "persistent_workers": "False", "prefetch_factor": "None", "timeout": "0"}


@rule.on(ast.Call, named={"DataLoader"})
def loader(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    workers = next((keyword.value for keyword in call.keywords if keyword.arg == "num_workers"), None)
    if workers is None or ctx.names.qualified(call.func) not in LOADERS:
        return
    if ctx.devices.only_with_cuda(call) or not _is_some(workers, ctx) or not _is_concerned(ctx):
        return
    title = "remove `num_workers`, so that the main process loads the data"
    fix = ctx.rewrite.fix(
        title, *ctx.rewrite.without_keywords(call, _OF_WORKERS), applicability=Applicability.UNSAFE
    )
    yield ctx.finding(
        workers, "worker processes of a `DataLoader` hang or raise inside the torchax environment", fix
    )


@rule.on(ast.Constant, named={"num_workers"})
def in_mapping(key: ast.Constant, ctx: Context) -> Iterator[Finding]:
    yield from _left_out(key, ctx)


@rule.on(ast.Call, named={"dict"})
def in_dict(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    yield from _left_out(call, ctx)


def _left_out(node: ast.expr, ctx: Context) -> Iterator[Finding]:
    options = ctx.names.options(node, "DataLoader")
    workers = options.get("num_workers")
    if workers is None or not _is_some(workers, ctx) or not _is_concerned(ctx):
        return
    edits = [ctx.rewrite.replace(options[name], none) for name, none in _WITHOUT.items() if name in options]
    title = "replace the value of `num_workers` with `0`, so that the main process loads the data"
    fix = ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)
    yield ctx.finding(
        workers, "worker processes of a `DataLoader` hang or raise inside the torchax environment", fix
    )


def _is_concerned(ctx: Context) -> bool:
    """Whether the program uses a device, without the runtime torchax-compat."""
    return ctx.program.serves_device and not ctx.program.runtime_handles("worker processes of a `DataLoader`")


def _is_some(workers: ast.expr, ctx: Context) -> bool:
    """Whether the number of workers may be greater than 0."""
    match workers:
        case ast.BoolOp(values=values):
            return any(_is_some(value, ctx) for value in values)
        case ast.IfExp(body=body, orelse=orelse):
            return _is_some(body, ctx) or _is_some(orelse, ctx)
        case ast.Call(args=[number]) if ctx.names.qualified(workers.func) == "builtins.int":
            return _is_some(number, ctx)
    kind = ctx.types.of(workers)
    if isinstance(kind, Static) and kind.value is not ...:
        return isinstance(kind.value, int | float) and kind.value > 0
    default = _default(workers, ctx)
    return not (isinstance(default, ast.Constant) and default.value in (0, None))


def _default(workers: ast.expr, ctx: Context) -> ast.expr | None:
    """The default of a parameter or of a command-line argument of this file; None if it is not known."""
    match workers:
        case ast.Name(id=name):
            return ctx.names.default_of(name)
        case ast.Attribute(attr=name):
            for call, _ in ctx.calls("add_argument"):
                options = [option.value for option in call.args if isinstance(option, ast.Constant)]
                if f"--{name}" in options or f"--{name.replace('_', '-')}" in options:
                    told = [keyword.value for keyword in call.keywords if keyword.arg == "default"]
                    return told[0] if told else ast.Constant(None)
    return None
