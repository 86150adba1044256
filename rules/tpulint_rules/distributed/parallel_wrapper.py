"""Wrapper that distributes a module over GPUs.

## What it does

Reports `DataParallel`, `DistributedDataParallel`, `FullyShardedDataParallel` and `fully_shard`.
Code that runs only where CUDA is available is not reported.
Neither are programs whose samplers give each process its share of the samples: there, the runtime
torchax-compat makes each device a rank; see [distributed programs](../distributed.md).

## Why it matters on TPU

- `DataParallel` raises `RuntimeError: PyTorch is not linked with support for jax devices`, or
  `NotImplementedError: Could not run 'aten::empty_strided' with arguments from the 'jax' backend`.
- `DistributedDataParallel` without a process group raises `ValueError: Default process group has not been
  initialized`.
  With a process group, `DistributedDataParallel` raises `RuntimeError: The tensor has a non-zero number of
  elements, but its data is not allocated yet`.
- `FullyShardedDataParallel` raises `AttributeError: Custom backend 'jax' not implement
  'torch.jax.current_stream'`.
- `fully_shard` raises `RuntimeError: Please register PrivateUse1HooksInterface`.
  If no launcher has set the ranks, `fully_shard` raises `ValueError: Error initializing torch.distributed`.

Under torchax, one process uses all chips of a host.
To distribute the work, shard the tensors: each device then holds either a part or a full copy of each tensor.

```python
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
for t in (*model.parameters(), *model.buffers()):
    t.apply_jax_(jax.device_put, NamedSharding(mesh, PartitionSpec()))
batch.apply_jax_(jax.device_put, NamedSharding(mesh, PartitionSpec("data")))
```

If the weights do not fit on one chip, shard the weights as well.
Use `PartitionSpec("data")` for weights whose first dimension is divisible by the number of devices.
On eight CPU devices, a program with this code gave the same results as on one device, both with copied and
with sharded weights.

## Fix safety

The fix is unsafe:

- The fix removes the wrapper, and removes `.module` after the name of the wrapped module.
  A program that used `DataParallel` gets a call of `shard_batches()` (see TPU001,
  `missing-torchax-environment`), and splits its batches over all devices. Any other program then runs on one
  device until you shard its tensors, as in the code above.
- The fix replaces `no_sync()` of the wrapper with `contextlib.nullcontext()`.
  `no_sync()` postpones the synchronization of gradients between processes; a single process has nothing to
  synchronize.
- The keys of checkpoints lose the prefix `module.`.
- If other code reads `.module` of a model, or adds or removes the prefix `module.` of keys, the fix does not
  just remove the wrapper, but replaces it with `single_process(...)`.
  Like `DataParallel`, `single_process` has the attribute `.module`, but it passes the whole batch to
  the module.
  `single_process` is part of the runtime torchax-compat.

## Without a fix

The wrapper has no fix in two cases: the file uses other methods of the wrapper, such as `join()`, or the
wrapper is not assigned to a variable or attribute.
Remove such a wrapper by hand.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.distributed import SHARDED_IN_PLACE, WRAPPER_ONLY, WRAPPERS
from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Rule

rule = Rule(
    "TPU802", "wrapper that distributes a module over GPUs", module=__name__, fix=Applicability.UNSAFE
)


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in WRAPPERS))
def wrapper(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name in WRAPPERS and not ctx.devices.only_with_cuda(call):
        if ctx.program.has_rank_per_device:
            return
        message = f"`{name.rpartition('.')[2]}` {WRAPPERS[name]}"
        is_kept = ctx.program.reads_wrapped_module and not ctx.program.keeps_cuda
        fix = _single_process(call, name, ctx) if is_kept else None
        yield ctx.finding(call, message, fix or _unwrapped(call, ctx))


@rule.on(ast.Call, named={"fully_shard"})
def in_place(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) not in SHARDED_IN_PLACE or ctx.devices.only_with_cuda(call):
        return
    if ctx.program.has_rank_per_device:
        return
    statement = ctx.statement(call)
    fix = None
    if isinstance(statement, ast.Expr) and statement.value is call:
        title = "remove the call to `fully_shard`"
        fix = ctx.rewrite.fix(title, ctx.rewrite.delete(statement), applicability=Applicability.UNSAFE)
    yield ctx.finding(call, "`fully_shard` raises after `import torchax`", fix)


def _wrapped(call: ast.Call) -> ast.expr | None:
    given = {word.arg: word.value for word in call.keywords}
    model = call.args[0] if call.args else given.get("module")
    return None if isinstance(model, ast.Starred) else model


def _single_process(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    """The fix that uses a wrapper that only calls the module."""
    model = _wrapped(call)
    if model is None or "FullySharded" in name:
        return None
    imports = ctx.rewrite.runtime_import("single_process")
    if imports is None:
        return None
    edits: list[Change] = [*imports, ctx.rewrite.replace(call, f"single_process({ctx.text(model)})")]
    return ctx.rewrite.fix(
        f"replace `{name.rpartition('.')[2]}` with `single_process`, which only calls the wrapped module",
        *edits,
        applicability=Applicability.UNSAFE,
        serves_cuda=True,
    )


def _unwrapped(call: ast.Call, ctx: Context) -> Fix | None:
    """The fix that uses the module itself, and removes `.module` after the name of the wrapper."""
    statement, model = ctx.statement(call), _wrapped(call)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if model is None or not isinstance(target, ast.Name | ast.Attribute):
        return None
    text = ctx.text(target)
    edits: list[Change] = []
    if any(ctx.names.attributes_of(target, WRAPPER_ONLY)):
        return None
    for node in ctx.names.attributes_of(target, ("module",)):
        if not ctx.is_located(node):
            return None
        edits.append(ctx.rewrite.reduce(node, node.value))
    waiting = [ctx.parent(node) for node in ctx.names.attributes_of(target, ("no_sync",))]
    if waiting:
        imports = ctx.rewrite.imports("import contextlib")
        if imports is None or not all(isinstance(outer, ast.Call) and not outer.args for outer in waiting):
            return None
        edits += imports
        edits += [
            ctx.rewrite.replace(outer, "contextlib.nullcontext()")
            for outer in waiting
            if isinstance(outer, ast.Call)
        ]
    same = statement.value is call and ctx.text(model) == text
    edits.append(ctx.rewrite.delete(statement) if same else ctx.rewrite.replace(call, ctx.text(model)))
    title = f"replace `{ctx.text(call.func)}(...)` with the module itself"
    return ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)
