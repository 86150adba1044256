"""Process group, or communication between processes.

## What it does

Reports:

- `torch.distributed.init_process_group`, except with the backend `"gloo"` or `"mpi"`, which communicate CPU
  tensors. tpulint follows the backend through variables, options, settings and functions of the file, and
  ignores values that only Windows, macOS or a host with CUDA uses;
- `init_device_mesh` and `DeviceMesh`;
- `DistributedSampler` without a rank;
- collectives, such as `all_reduce` and `barrier`, and queries of the process group, such as `get_rank`;
- checks that stop the program without a process group, such as `assert torch.distributed.is_initialized()`;
- `get_default_backend_for_device`;
- `torch.multiprocessing.spawn`, if it starts one process per device, or if the same file starts a process
  group.

The rule does not report:

- code that a condition runs only with several processes, as in `if get_world_size() > 1:`, because a program
  on TPU is one process. In a program that starts a process group, or that enters the torchax environment, a
  flag or an environment variable such as `WORLD_SIZE` is no such condition, because a launcher may set it;
- programs that start a process group and use a `DistributedSampler`, `FullyShardedDataParallel`,
  `fully_shard` or `parallelize_module`: the fix of TPU001 (`missing-torchax-environment`) makes each device a
  rank of the process group, so that these programs run unchanged on all devices of the host; see
  [distributed programs](../distributed.md). Exceptions are programs that communicate between some of the
  ranks by hand;
- calls to which the program passes a `group`;
- queries in a program that neither starts a process group nor enters the torchax environment.

## Why it matters on TPU

- `init_process_group("nccl")` raises `RuntimeError: Distributed package doesn't have NCCL built in`, because
  NCCL does not exist on a TPU host.
- Without a backend, `init_process_group()` raises `RuntimeError: Please register PrivateUse1HooksInterface by
  RegisterPrivateUse1HooksInterface first`.
  `barrier()`, `init_device_mesh` and `DeviceMesh` also raise this `RuntimeError` after `import torchax`.
- Collectives raise `AssertionError: torchax Tensors can only do math within the torchax environment`, even
  inside the environment.
- Collectives of Python objects, such as `all_gather_object`, raise `OperatorNotFound: Operator with name
  aten::set_.source_Storage has no lowering`.
- `get_default_backend_for_device` raises `ValueError: Default backend not registered for device : jax`.
- Without a process group, all other reported functions raise `ValueError: Default process group has not been
  initialized`.

On one host, JAX needs no process group.
One process uses all chips of the host, and the program may distribute (shard) a tensor over the chips.
XLA adds the communication that the sharding requires:

```python
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
for t in (*model.parameters(), *model.buffers()):
    t.apply_jax_(jax.device_put, NamedSharding(mesh, PartitionSpec()))
batch.apply_jax_(jax.device_put, NamedSharding(mesh, PartitionSpec("data")))
loss = loss_function(model(batch), target)  # the mean over the whole batch, on all devices
```

On eight CPU devices, this code gave the same results as on one device, eagerly and under `torchax.compile`.

## Fix safety

The fix is unsafe, because it assumes that one process uses all devices.
For example, the sum of a value over all processes is then the value in this one process.

- `get_rank()` becomes `jax.process_index()`, and `get_world_size()` becomes `jax.process_count()`.
  JAX uses one process per host, so `jax.process_index()` and `jax.process_count()` count hosts, not devices.
- `get_backend()` becomes `"gloo"`.
- The fix removes calls that only start or end the process group, calls that only communicate, with the
  `wait()` of those that work in the background, and checks that stop the program without a process group.
- The fix replaces `spawn(f, ...)` with one direct call of `f`, which receives 0 as its rank.
- The fix replaces the default backend with `"gloo"`, the backend for CPU tensors.
- `all_gather(parts, x)` becomes `parts[:] = [x.clone()]`, so `parts` holds one tensor.
- For `init_device_mesh` and `DeviceMesh`, the fix adds the runtime torchax-compat, in which a mesh has
  one process, and its process groups communicate over the host.

If the program runs on several hosts, call `jax.distributed.initialize()` before any other function of JAX.

## Without a fix

- Remove collectives that gather the parts of a result: in one process, the tensor is already whole.
- Replace a device mesh of torch that has a fixed number of processes, as in `init_device_mesh("cuda", (2,
  4))`, with `jax.sharding.Mesh(np.array(jax.devices()).reshape(2, -1), ("data",
  "model"))`.
- Replace the batch size of one process with the batch size of all processes together.
- Start the program without `torchrun`.
  `torchrun` starts several processes, but the first process holds all chips, so a second process cannot use
  them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.distributed import (
    COLLECTIVES,
    DEFAULT_BACKEND,
    IS_STARTED,
    MESHES,
    NO_GROUP,
    SAMPLERS,
    START,
    Collective,
    collective,
)
from tpulint.knowledge.runtime import DISTRIBUTION
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule

rule = Rule(
    "TPU801",
    "process group, or communication between processes",
    module=__name__,
    fix=Applicability.UNSAFE,
)

_ONE = "because one process uses all chips"


@rule.on(ast.Call, named={START.rpartition(".")[2]})
def started(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not ctx.program.starts_group(call) or ctx.devices.only_with_cuda(call):
        return
    if ctx.program.group_serves_host(call) or ctx.program.has_rank_per_device:
        return
    if "nccl" in ctx.program.group_backends(call):
        message = "the NCCL backend does not exist on a TPU host, where one process uses all chips"
    else:
        message = "process groups do not support torchax tensors; on a TPU host, one process uses all chips"
    yield ctx.finding(call, message, _removed(call, ctx))


@rule.on(ast.Call, named=frozenset(COLLECTIVES))
def communicated(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    known = collective(ctx.names.qualified(call.func))
    if (
        known is None
        or ctx.program.has_rank_per_device
        or ctx.devices.only_with_processes(call)
        or ctx.devices.only_with_cuda(call)
        or ctx.devices.is_caught(call)
    ):
        return
    name, what = known
    if what.what == NO_GROUP and not ctx.program.may_lack_group:
        return
    if any(word.arg == "group" and not _is_whole(word.value, ctx) for word in call.keywords):
        return  # who made that group is reported
    if what.instead and any(not _is_whole(argument, ctx) for argument in call.args):
        return
    message, fix = f"`torch.distributed.{name}` {what.what}", _fix(call, what, ctx)
    if (
        what.instead
        and ctx.is_located(call)
        and any(isinstance(o, ast.JoinedStr) for o in ctx.ancestors(call))
    ):
        # Not `finding`, which gives what is in an f-string no fix: this one brings no quotes.
        yield ctx.finding_at(ctx.span(call), message, fix)
    else:
        yield ctx.finding(call, message, fix)


def _is_whole(group: ast.expr, ctx: Context) -> bool:
    """Whether the argument `group` stands for the group of all processes."""
    if isinstance(group, ast.Constant):
        return group.value is None
    return (ctx.names.qualified(group) or "").endswith((".group.WORLD", ".GroupMember.WORLD"))


@rule.on(ast.Call, named={"is_initialized"})
def demanded(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    """A check that stops the program unless it has a process group, which the fix takes from it."""
    if ctx.names.qualified(call.func) not in IS_STARTED or ctx.devices.only_with_cuda(call):
        return
    if not ctx.program.may_lack_group or ctx.devices.is_caught(call) or ctx.program.has_rank_per_device:
        return
    outer = ctx.parent(call)
    statement: ast.stmt | None = None
    if isinstance(outer, ast.Assert) and outer.test is call:
        statement = outer
    elif isinstance(outer, ast.UnaryOp) and isinstance(outer.op, ast.Not):
        branch = ctx.parent(outer)
        if isinstance(branch, ast.If) and branch.test is outer and isinstance(branch.body[-1], ast.Raise):
            statement = branch
    if statement is None:
        return
    fix = None
    if not isinstance(statement, ast.If) or not statement.orelse:
        title = "remove the check for a process group, which a program on TPU does not need"
        fix = ctx.rewrite.fix(title, ctx.rewrite.delete(statement), applicability=Applicability.UNSAFE)
    yield ctx.finding(
        call, "this check stops the program, because a program on TPU has no process group", fix
    )


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in MESHES))
def mesh(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if (
        name not in MESHES
        or ctx.devices.only_with_cuda(call)
        or ctx.devices.only_with_processes(call)
        or ctx.devices.is_caught(call)
        or ctx.program.has_rank_per_device
    ):
        return
    given = {word.arg: word.value for word in call.keywords}
    device = call.args[0] if call.args else given.get("device_type")
    if isinstance(device, ast.Constant) and device.value == "cpu":
        return
    name = name.rpartition(".")[2]
    # A shape says how many processes, and the mesh of `DeviceMesh` which ones, from 0.
    argument, most = ("mesh", 0) if name == "DeviceMesh" else ("mesh_shape", 1)
    over = call.args[1] if len(call.args) > 1 else given.get(argument)
    if over is not None and _reaches(over, most + 1):
        message = f"this `{name}` needs several processes, but a program on TPU is one process"
        yield ctx.finding(call, f"{message}; use `jax.sharding.Mesh` instead")
    elif not ctx.program.runtime_handles("device meshes of one process"):
        title = f"add the runtime {DISTRIBUTION}, which makes a mesh of one process"
        message = f"`{name}` raises after `import torchax`, because PyTorch has no process group for torchax"
        yield ctx.finding(call, message, ctx.rewrite.runtime_fix(title))


def _reaches(value: ast.expr, number: int) -> bool:
    """Whether an element of a list, or of one of its lists, is at least a number."""
    if isinstance(value, (ast.List, ast.Tuple)):
        return any(_reaches(one, number) for one in value.elts)
    return isinstance(value, ast.Constant) and isinstance(value.value, int) and value.value >= number


@rule.on(ast.Call, named={"DistributedSampler"})
def sampler(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) not in SAMPLERS or len(call.args) != 1:
        return
    # A flag that says there are several may be set where one process starts a group, which goes.
    if ctx.devices.only_with_processes(call) and not ctx.program.is_grouped:
        return
    if any(word.arg in (None, "rank", "num_replicas") for word in call.keywords):
        return
    if ctx.program.starts_host_group or ctx.program.has_rank_per_device:
        return
    imports = ctx.rewrite.imports("import jax")
    fix = None
    if imports is not None:
        edits = (
            ctx.rewrite.add_argument(call, "num_replicas=jax.process_count()", 1),
            ctx.rewrite.add_argument(call, "rank=jax.process_index()", 2),
        )
        title = "add `num_replicas=jax.process_count()` and `rank=jax.process_index()` to the sampler"
        fix = ctx.rewrite.fix(title, *edits, *imports, applicability=Applicability.UNSAFE)
    yield ctx.finding(call, f"`DistributedSampler` {NO_GROUP}", fix)


@rule.on(ast.Call, named={"get_default_backend_for_device"})
def default_backend(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) not in DEFAULT_BACKEND or ctx.devices.only_with_cuda(call):
        return
    given = call.args[0] if len(call.args) == 1 else None
    if (
        not ctx.program.serves_device
        or ctx.program.has_rank_per_device
        or (isinstance(given, ast.Constant) and given.value == "cpu")
    ):
        return
    edit = ctx.rewrite.replace(call, '"gloo"')
    title = 'replace `get_default_backend_for_device` with `"gloo"`, the backend for CPU tensors'
    fix = ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)
    yield ctx.finding(
        call, "`get_default_backend_for_device` raises `ValueError` for the torchax device", fix
    )


@rule.on(ast.Call, named={"spawn"})
def started_often(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    given = ctx.program.spawned(call)
    if given is None or ctx.devices.only_with_processes(call) or ctx.devices.only_with_cuda(call):
        return
    if not ctx.program.is_grouped and not _counts_devices(given.get("nprocs"), ctx):
        return
    message = "`spawn` starts one process per GPU, but the first process takes all chips of a TPU host"
    fix = None
    if "fn" in given and ctx.statement(call) is ctx.parent(call):
        text = ctx.rewrite.call_as_first_process(given)
        title = f"call `{ctx.text(given['fn'])}` directly, as rank 0, instead of through `spawn`"
        fix = ctx.rewrite.fix(title, ctx.rewrite.replace(call, text), applicability=Applicability.UNSAFE)
    yield ctx.finding(call, message, fix)


def _counts_devices(number: ast.expr | None, ctx: Context) -> bool:
    """Whether the number of processes is the number of devices."""
    values = [
        number,
        *(ctx.names.assigned_values(number) if isinstance(number, ast.Name | ast.Attribute) else ()),
    ]
    return any(
        isinstance(value, ast.Call)
        and (ctx.names.qualified(value.func) or "").rpartition(".")[2]
        in ("device_count", "local_device_count")
        for value in values
    )


def _fix(call: ast.Call, what: Collective, ctx: Context) -> Fix | None:
    if what.removable:
        return _removed(call, ctx)
    if what.own:
        return _own(call, what.own, ctx)
    imports = ctx.rewrite.imports("import jax") if "jax." in what.instead else ()
    if not what.instead or imports is None:
        return None
    title = f"replace `{_name(call, ctx)}` with `{what.instead}`"
    return ctx.rewrite.fix(
        title, ctx.rewrite.replace(call, what.instead), *imports, applicability=Applicability.UNSAFE
    )


def _own(call: ast.Call, form: str, ctx: Context) -> Fix | None:
    """The fix that replaces gathered values with those of this process."""
    statement = ctx.statement(call)
    options = {word.arg for word in call.keywords}
    if not isinstance(statement, ast.Expr) or statement.value is not call or len(call.args) != 2:
        return None
    target, part = call.args
    if options - {"async_op"} or not isinstance(target, ast.Name | ast.Attribute):
        return None
    plain = "[:] = [{}]" in form
    text = form.format(ctx.text(target), ctx.text(part) if plain else ctx.rewrite.operand(part))
    title = f"replace `{_name(call, ctx)}` with `{text}`, {_ONE}"
    return ctx.rewrite.fix(title, ctx.rewrite.replace(statement, text), applicability=Applicability.UNSAFE)


def _removed(call: ast.Call, ctx: Context) -> Fix | None:
    statement = ctx.statement(call)
    waits = _waits(statement, call, ctx)
    if waits:
        title = f"remove the call to `{_name(call, ctx)}` and the wait for its end, {_ONE}"
        edits = [ctx.rewrite.delete(one) for one in (statement, *waits)]
        return ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)
    if not isinstance(statement, ast.Expr) or statement.value is not call:
        return None
    title = f"remove the call to `{_name(call, ctx)}`, {_ONE}"
    return ctx.rewrite.fix(title, ctx.rewrite.delete(statement), applicability=Applicability.UNSAFE)


def _waits(statement: ast.stmt, call: ast.Call, ctx: Context) -> list[ast.stmt]:
    """The statements that wait for a call which works in the background, if its result has no other use."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is call:
            bound = ctx.scope.bindings.get(name, ())
            calls = [
                ctx.parent(node) for read in ctx.names.loads(name) if (node := ctx.parent(read)) is not None
            ]
            waits = [
                one for one in calls if isinstance(one, ast.Call) and ast.unparse(one) == f"{name}.wait()"
            ]
            statements = [ctx.statement(one) for one in waits]
            alone = all(
                isinstance(one, ast.Expr) and one.value is wait
                for one, wait in zip(statements, waits, strict=True)
            )
            if len(bound) == 1 and alone and len(waits) == len([*ctx.names.loads(name)]):
                return statements
    return []


def _name(call: ast.Call, ctx: Context) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ctx.text(call.func)
