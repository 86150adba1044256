"""Data loader with worker processes.

## What it does

Flags `DataLoader(..., num_workers=n)` in programs that use a device, unless `n` is known to be 0: a number, a
variable, or the default of a parameter or of an argument of the command line in the same file.
What a configuration or another file says is not known, and taken for more than 0.
So it does in a dictionary, in a file where a loader unpacks one.
Programs that train are left as they are: `host/workers.py`, in the folder `torchax_training` that their fix
brings, makes each batch in the program itself, as the worker would whose turn it is, with its random numbers.

## Why it matters on TPU

What the environment of torchax does to torch reaches the loader, too.
Workers that are forked within it hang without a word, or die of `OperatorNotFound: Operator with name
aten::set_.source_Storage has no lowering`; with `forkserver` and `spawn` the program itself does, when it
takes a batch.

## Fix safety

Unsafe: batches are made in the program itself, so the device may wait for them, and random transformations
draw other numbers, since workers have seeds of their own.
What the configuration says of workers no longer counts.

## Without a fix

Batches that take long to make are taken from workers with the environment left:

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

`for x, y in batches(loader)` then works with `fork`, `forkserver` and `spawn`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding
from tpulint.model.names.references import default_of
from tpulint.model.values.kinds import Static
from tpulint.rule import Context, Rule

rule = Rule("TPU707", "data loader with worker processes", module=__name__, fix=Applicability.UNSAFE)

_LOADERS = frozenset({"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"})
#: What a loader without workers does not take.
_OF_WORKERS = frozenset(
    {"num_workers", "prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout"}
)
#: What the options are then, where they are kept in a dictionary.
_WITHOUT = {"num_workers": "0", "persistent_workers": "False", "prefetch_factor": "None", "timeout": "0"}


@rule.on(ast.Call, named={"DataLoader"})
def loader(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    workers = next((keyword.value for keyword in call.keywords if keyword.arg == "num_workers"), None)
    if workers is None or ctx.qualified_name(call.func) not in _LOADERS or not _is_concerned(ctx):
        return
    if ctx.only_with_cuda(call) or not _is_some(workers, ctx):
        return
    fix = ctx.fix(
        "leave out the workers",
        ctx.without_keywords(call, _OF_WORKERS),
        applicability=Applicability.UNSAFE,
    )
    yield ctx.finding(workers, "workers of a loader hang or raise within the torchax environment", fix)


@rule.on(ast.Constant, named={"num_workers"})
def in_mapping(key: ast.Constant, ctx: Context) -> Iterator[Finding]:
    yield from _left_out(key, ctx)


@rule.on(ast.Call, named={"dict"})
def in_dict(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    yield from _left_out(call, ctx)


def _left_out(node: ast.expr, ctx: Context) -> Iterator[Finding]:
    options = ctx.options(node, "DataLoader")
    workers = options.get("num_workers")
    if workers is None or not _is_concerned(ctx) or not _is_some(workers, ctx):
        return
    edits = [ctx.replace(options[name], none) for name, none in _WITHOUT.items() if name in options]
    fix = ctx.fix("leave out the workers", *edits, applicability=Applicability.UNSAFE)
    yield ctx.finding(workers, "workers of a loader hang or raise within the torchax environment", fix)


def _is_concerned(ctx: Context) -> bool:
    return ctx.serves_device and not ctx.is_amended


def _is_some(workers: ast.expr, ctx: Context) -> bool:
    """Whether a number of workers may be more than none: what is not known would hang without a word."""
    match workers:
        case ast.BoolOp(values=values):
            return any(_is_some(value, ctx) for value in values)
        case ast.IfExp(body=body, orelse=orelse):
            return _is_some(body, ctx) or _is_some(orelse, ctx)
        case ast.Call(args=[number]) if ctx.qualified_name(workers.func) == "builtins.int":
            return _is_some(number, ctx)
    kind = ctx.kind(workers)
    if isinstance(kind, Static) and kind.value is not ...:
        return isinstance(kind.value, int | float) and kind.value > 0
    default = _default(workers, ctx)
    return not (isinstance(default, ast.Constant) and default.value in (0, None))


def _default(workers: ast.expr, ctx: Context) -> ast.expr | None:
    """The default of a parameter, or of an argument of the command line that this file declares."""
    match workers:
        case ast.Name(id=name):
            found = ctx.module.names.lookup(name, ctx.scope)
            return default_of(name, found[0]) if found is not None else None
        case ast.Attribute(attr=name):
            for call, _ in ctx.calls("add_argument"):
                options = [option.value for option in call.args if isinstance(option, ast.Constant)]
                if f"--{name}" in options or f"--{name.replace('_', '-')}" in options:
                    told = [keyword.value for keyword in call.keywords if keyword.arg == "default"]
                    return told[0] if told else ast.Constant(None)
    return None
