"""`torch.cuda` call for devices, memory or random state.

## What it does

Reports calls that query or manage devices, memory and random numbers of CUDA, such as:

- memory: `torch.cuda.empty_cache()`, `torch.cuda.max_memory_allocated()`;
- devices: `torch.cuda.set_device(0)`, `torch.cuda.device_count()`, `with torch.cuda.device(0):`;
- copies between GPUs: `torch.cuda.comm.scatter(...)`;
- seeds: `torch.cuda.manual_seed_all(seed)`;
- functions of `torch.accelerator` that fail under torchax.

The rule does not report:

- Code that runs only where CUDA is available, except calls that seed random numbers, or that save or restore
  a random state. The rule reports a seed call inside a check for CUDA because the program skips this call on
  TPU, so the random numbers of the device are not seeded at all.
- A call that raises, if the program catches the exception. An exception is a `try` that names a device, and
  whose handler names the CPU instead: the program would silently stay on the CPU.
- `torch.cuda.device_count()`, if the program only checks for several GPUs: `if torch.cuda.device_count() >
  1:`.
  On a TPU host, this condition should be false.
  In contrast, the rule reports `torch.cuda.device_count() > 0` and similar comparisons, which check whether
  the host has a GPU.

## Why it matters on TPU

Many of the reported functions raise on a host without CUDA:

- Most functions of `torch.cuda` raise `AssertionError: Torch not compiled with CUDA enabled`.
- Some functions of `torch.cuda` raise `AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'`
  (or `_cuda_resetPeakMemoryStats`, `_broadcast`, `_scatter`).
- Some functions of `torch.cuda` raise `RuntimeError: PyTorch was compiled without CUDA support`.
- Under torchax, the device of `torch.accelerator` is the torchax device.
  Most functions of `torch.accelerator` then raise `RuntimeError: PyTorch is not linked with support for jax
  devices`, or fail an assertion inside torch.

Other functions of `torch.cuda` return a wrong answer on a host without CUDA, without an error:

- `torch.cuda` reports that no memory is in use, that there are no devices, and that bfloat16 is not
  supported.
- `torch.cuda.manual_seed` takes effect only when CUDA is initialized, which never happens on a TPU host.
  Two runs of a program with the same seed therefore differ.

On TPU, `torch.cuda.empty_cache()` does nothing, because XLA's allocator keeps no cache of its own.

## Fix safety

In a program that does not enter the torchax environment yet, a fix that writes `"jax"` is unsafe: `"jax"`
raises there until the fix of TPU001 (`missing-torchax-environment`) is applied, too.

The fix is safe in two cases:

- The fix removes a call that does nothing or only raises, such as `empty_cache`, `ipc_collect` and `init`.
- The fix replaces `torch.cuda.current_device()` with `"jax"` where the result is an argument of torch.

The fix is unsafe in all other cases:

- The fix replaces calls of memory functions, such as `torch.cuda.max_memory_allocated()`, with the values
  that JAX reports for its first local device. JAX cannot reset the peak memory, so the fixed program always
  gets the peak since the start of the program. JAX's CPU backend does not report how much memory is in use,
  so the fixed code returns 0 if JAX computes on the CPU.
- The fix replaces `torch.cuda.device_count()` with the number of JAX devices of this host.
  If the program passes this number to `torch.multiprocessing.spawn` as the number of processes, the fix
  replaces `torch.cuda.device_count()` with 1, because in JAX one process uses all devices of the host.
  Where each device is a rank, the number of processes is the number of devices; see [distributed
  programs](../distributed.md).
- The fix removes `torch.cuda.set_device` and `with torch.cuda.device(...)`, so the program no longer selects
  one device.
  In JAX, the sharding of a tensor decides which devices hold the tensor.
- The fix replaces a call that seeds CUDA with a call that seeds torchax.
  The program then draws the same random numbers in each run, but not the numbers that CUDA draws.
  If a check for CUDA guards the seed call together with other statements, the fix moves the seed call to the
  line before this check.
- The fix replaces `torch.cuda.current_device()` with 0 where the program does not use the result of
  `torch.cuda.current_device()` as a device.
- The fix replaces the compute capability with `(0, 0)`, because a TPU has no compute capability.
  A program that checks the compute capability then skips its CUDA kernels.
- The fix replaces the device properties with an object that holds the device name, the memory, the compute
  capability `(0, 0)` and one processor.
- In calls that save or restore the random state of CUDA, the fix uses the random state of torchax.
  This state is a JAX key, which `torch.save` does not accept, so the fixed code saves the data of the key as
  a tensor.

## Without a fix

- For `torch.cuda.memory_snapshot()`, write a memory profile with
  `jax.profiler.save_device_memory_profile(path)` instead.
- Instead of functions of `torch.cuda.comm`, shard the tensor over several chips, as the page of TPU801
  (`process-group`) shows. The program then uses the sharded tensor, and needs no calls of `broadcast` and
  `gather`.
- For `torch.cuda.seed()`, call `torchax.default_env().manual_seed(seed)` instead.
- For `torch.cuda.manual_seed(...)` inside a condition that checks more than whether CUDA is available, call
  `torchax.default_env().manual_seed(seed)` instead.
- For other functions, such as `utilization` and `temperature`, tpulint knows no replacement.
  Remove the call, or run it only if `torch.cuda.is_available()` is true.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from tpulint.knowledge.cuda_api import CALLED, MEMORY, PROPERTIES, CudaCall, Effect, cuda_call
from tpulint.knowledge.distributed import START, WRAPPERS
from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Rule, Severity
from tpulint.rules_api.syntax import is_cuda_string, is_formatted_cuda

rule = Rule(
    "TPU204",
    "`torch.cuda` call for devices, memory or random state",
    module=__name__,
    fix=Applicability.SAFE,
    targets=EVERY_TARGET,
)

_FAILS = (Effect.RAISES, Effect.UNLINKED)
_RANDOM = (Effect.UNSEEDED, Effect.UNRESTORED)
_SEEDED = "remove this call, because the previous statement already seeds torchax"
#: What binds less tightly than `and`.
_LOOSE = ast.BoolOp | ast.IfExp | ast.NamedExpr | ast.Lambda
_STATES = ("get_rng_state", "get_rng_state_all")
#: What compares a count with none and with one to see if there are any, and what does so the other way round.
_OF_NONE, _OF_ONE = (ast.Gt, ast.NotEq, ast.Eq, ast.LtE), (ast.GtE, ast.Lt)
_TO_NONE, _TO_ONE = (ast.Lt, ast.NotEq, ast.Eq, ast.GtE), (ast.LtE, ast.Gt)


@rule.on(ast.Call, named=CALLED)
def runtime_call(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    known = cuda_call(ctx.names.qualified(call.func))
    if known is None:
        return
    qualified, what = known
    name = qualified.rpartition(".")[2]
    if _serves_another(call, name, ctx):
        return
    if name in ("device", "device_index") and not isinstance(ctx.parent(call), ast.withitem):
        return  # made, and not entered: it does nothing, with CUDA or without
    guarded = ctx.devices.only_with_cuda(call)
    if guarded and name in _STATES:
        if (fix := _kept_state(call, what, ctx)) is not None:
            yield ctx.finding(call, f"`{qualified}()` {what.effect}", fix)
        return
    if guarded and what.effect not in _RANDOM and not _asked_with_availability(call, name, ctx):
        return
    if what.effect in _FAILS and ctx.devices.is_caught(call) and not _is_tried_for_device(call, ctx):
        return
    if name == "device_count" and _chooses_many_devices(call, ctx):
        return
    severity = Severity.COSMETIC if what.effect is Effect.NOTHING else Severity.BLOCKS
    fix = _fix(call, name, what, ctx)
    yield ctx.finding(call, f"`{qualified}()` {what.effect}", fix, severity=severity)


def _fix(call: ast.Call, name: str, what: CudaCall, ctx: Context) -> Fix | None:
    statement = ctx.statement(call)
    alone = isinstance(statement, ast.Expr) and statement.value is call
    if name == "current_device":
        return _as_device(call, ctx) or _replaced(call, "0", what, ctx)
    if name == "get_device_properties":
        read = ctx.parent(call)
        if isinstance(read, ast.Attribute) and read.attr in PROPERTIES:
            code = PROPERTIES[read.attr]
            new = MEMORY.format("bytes_limit") if read.attr == "total_memory" else f"`{code}`"
            needs = "import jax" if "jax." in code else ""
            title = f"replace `{what.name}().{read.attr}` with {new}"
            return _replaced(read, code, replace(what, needs=needs), ctx, title)
    if what.removable:
        applicability = Applicability.SAFE if what.exact else Applicability.UNSAFE
        item = ctx.parent(call)
        title = f"remove the call to `{what.name}`"
        if alone:
            return ctx.rewrite.fix(title, ctx.rewrite.delete(statement), applicability=applicability)
        if isinstance(item, ast.withitem) and isinstance(statement, ast.With):
            edits = ctx.rewrite.unwrap(statement, item)
            title = f"remove the context manager `{what.name}` and keep the code inside"
            return ctx.rewrite.fix(title, *edits, applicability=applicability) if edits else None
        return None
    if what.effect in _RANDOM and alone:
        return _random(call, statement, what, ctx)
    if not what.instead or (what.effect in _RANDOM):
        return None
    is_number_of_processes = name == "device_count" and ctx.program.is_number_of_processes(call)
    if is_number_of_processes and not ctx.program.has_rank_per_device:
        return ctx.rewrite.fix(
            "replace `torch.cuda.device_count()` with `1`, because one JAX process uses all devices",
            ctx.rewrite.replace(call, "1"),
            applicability=Applicability.UNSAFE,
        )
    whole = _asked_with_availability(call, name, ctx) or call
    outer = ctx.parent(whole)
    if what.instead == "True" and isinstance(outer, ast.IfExp) and outer.test is whole:
        chosen = ctx.text(outer.body)
        title = f"replace the conditional expression with `{chosen}`, because TPUs support bfloat16"
        return _replaced(outer, chosen, what, ctx, title)
    return _replaced(whole, what.instead.format(), what, ctx)


def _replaced(
    node: ast.expr | ast.stmt, text: str, what: CudaCall, ctx: Context, title: str = ""
) -> Fix | None:
    imports = ctx.rewrite.imports(*what.needs.splitlines())
    if imports is None:
        return None
    title = title or _title(text, what)
    return ctx.rewrite.fix(
        title, ctx.rewrite.replace(node, text), *imports, applicability=Applicability.UNSAFE
    )


def _title(text: str, what: CudaCall) -> str:
    return f"replace `{what.name}()` with {what.described or f'`{text}`'}"


def _random(call: ast.Call, statement: ast.stmt, what: CudaCall, ctx: Context) -> Fix | None:
    """The fix that seeds or restores torchax's random numbers, in place of a condition around the call."""
    if not what.instead or not call.args or isinstance(call.args[0], ast.Starred):
        return None
    outer = ctx.parent(statement)
    whole: ast.stmt = statement
    if isinstance(outer, ast.If) and len(outer.body) == 1 and not outer.orelse:
        if ctx.devices.only_with_cuda(statement) and not ctx.devices.only_with_cuda(outer):
            if _besides_cuda(outer.test, ctx):
                text = what.instead.format(_given(call, what, ctx))
                return _unguarded(outer, statement, text, what, ctx) or _replaced(statement, text, what, ctx)
            whole = outer
    elif ctx.devices.only_with_cuda(statement):
        return _ahead(call, statement, what, ctx)
    block = ctx.block(whole)
    position = next(number for number, item in enumerate(block) if item is whole)
    if position and _seeds(block[position - 1], call.args[0], ctx):
        delete = ctx.rewrite.delete(whole)
        return ctx.rewrite.fix(_SEEDED, delete, applicability=Applicability.UNSAFE)
    return _replaced(whole, what.instead.format(_given(call, what, ctx)), what, ctx)


def _given(call: ast.Call, what: CudaCall, ctx: Context) -> str:
    """The source of the arguments of a call, for its replacement."""
    is_whole = "({})" in what.instead or isinstance(call.args[0], ast.List | ast.ListComp)
    return ctx.text(call.args[0]) if is_whole else ctx.rewrite.operand(call.args[0])


def _kept_state(call: ast.Call, what: CudaCall, ctx: Context) -> Fix | None:
    """The fix that saves the state of torchax's random numbers where a condition saves that of CUDA."""
    choice, statement = ctx.parent(call), ctx.statement(call)
    if isinstance(choice, ast.IfExp) and choice.body is call:
        return _unguarded(choice, call, what.instead.format(), what, ctx)
    outer = ctx.parent(statement)
    if not isinstance(outer, ast.If) or outer.body != [statement] or outer.orelse:
        return None
    text, known = ctx.text(statement), ctx.text(call)
    if "\n" in text or text.count(known) != 1 or not ctx.text(outer).startswith("if"):
        return None
    return _unguarded(outer, statement, text.replace(known, what.instead.format()), what, ctx)


def _unguarded(
    guard: ast.If | ast.IfExp, inner: ast.expr | ast.stmt, text: str, what: CudaCall, ctx: Context
) -> Fix | None:
    """The fix that replaces guarded code, and removes the check for CUDA from its condition."""
    others, imports = _besides_cuda(guard.test, ctx), ctx.rewrite.imports(*what.needs.splitlines())
    if imports is None or len(others) == len(_parts(guard.test)):
        return None
    if not others:
        edits = [ctx.rewrite.replace(guard, text)]
    else:
        is_alone = len(others) == 1
        texts = ((one, ctx.text(one)) for one in others)
        kept = [f"({text})" if isinstance(one, _LOOSE) and not is_alone else text for one, text in texts]
        edits = [ctx.rewrite.replace(guard.test, " and ".join(kept)), ctx.rewrite.replace(inner, text)]
    title = f"{_title(text, what)}, and remove the check for CUDA"
    return ctx.rewrite.fix(title, *edits, *imports, applicability=Applicability.UNSAFE)


def _besides_cuda(test: ast.expr, ctx: Context) -> list[ast.expr]:
    """The parts of a condition that do not check for CUDA."""
    return [one for one in _parts(test) if _asks_for_kept(one) or not ctx.devices.means_cuda(one)]


def _parts(test: ast.expr) -> list[ast.expr]:
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]


def _asks_for_kept(test: ast.expr) -> bool:
    """Whether the condition checks for a saved state, as `"cuda_state" in state` does."""
    match test:
        case ast.Compare(ops=[ast.Is() | ast.IsNot()]):
            return True
        case ast.Compare(left=ast.Constant(value=str(key)), ops=[ast.In()]):
            return key != "cuda"
    return False


def _ahead(call: ast.Call, statement: ast.stmt, what: CudaCall, ctx: Context) -> Fix | None:
    """The fix that seeds or restores before a condition that does more and is false without CUDA."""
    outer, seed = ctx.parent(statement), call.args[0]
    if not isinstance(outer, ast.If) or statement not in outer.body or ctx.devices.only_with_cuda(outer):
        return None
    asked = (ctx.names.qualified(node) or "" for node in ast.walk(outer.test) if isinstance(node, ast.expr))
    if not any(name.startswith("torch.cuda.") for name in asked):
        return None  # a flag, which may come to be true on TPU, too
    before = outer.body[: outer.body.index(statement)]
    set_before = {
        node.id
        for one in before
        for node in ast.walk(one)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    needed = {node.id for node in ast.walk(seed) if isinstance(node, ast.Name)}
    is_second = any(_seeds(one, seed, ctx) for one in before)  # whose turn comes when the first is gone
    if ctx.source.ahead_of(outer).strip() or needed & set_before or is_second:
        return None
    delete = ctx.rewrite.delete(statement)
    block = ctx.block(outer)
    position = block.index(outer)
    if position and _seeds(block[position - 1], seed, ctx):
        return ctx.rewrite.fix(_SEEDED, delete, applicability=Applicability.UNSAFE)
    imports = ctx.rewrite.imports(*what.needs.splitlines())
    if imports is None:
        return None
    text = what.instead.format(ctx.text(seed))
    edits: list[Change] = [ctx.rewrite.insert_before(outer, text), delete, *imports]
    title = f"{_title(text, what)}, placed before the `if`, because its condition is false on TPU"
    return ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)


def _seeds(before: ast.stmt, seed: ast.expr, ctx: Context) -> bool:
    """Whether the statement seeds the device's random numbers with the same expression."""
    if not isinstance(before, ast.Expr) or not isinstance(before.value, ast.Call):
        return False
    known = cuda_call(ctx.names.qualified(before.value.func))
    env = ast.unparse(before.value.func) == "torchax.default_env().manual_seed"
    seeds = env or (known is not None and known[1].effect is Effect.UNSEEDED)
    return seeds and [ast.unparse(arg) for arg in before.value.args] == [ast.unparse(seed)]


def _as_device(call: ast.Call, ctx: Context) -> Fix | None:
    """The fix that uses the torchax device where the current CUDA device is passed as a device."""
    outer = ctx.parent(call)
    if isinstance(outer, ast.keyword):
        outer = ctx.parent(outer)
    handed = isinstance(outer, ast.Call) and ctx.devices.takes_device(outer, call)
    kept = ctx.devices.becomes_device(call)
    if not handed and not kept:
        return None
    edit: Change = ctx.rewrite.replace(call, '"jax"')
    applicability = Applicability.SAFE if handed else Applicability.UNSAFE
    title = 'replace `torch.cuda.current_device()` with the torchax device `"jax"`'
    return ctx.rewrite.fix(title, edit, applicability=applicability)


def _asked_with_availability(call: ast.Call, name: str, ctx: Context) -> ast.BoolOp | None:
    """Whether the check for CUDA is part of the same expression, `is_available() and ...`; it, or None.

    Only for `torch.cuda.is_bf16_supported()`.
    """
    outer = ctx.parent(call)
    if name != "is_bf16_supported" or not isinstance(outer, ast.BoolOp) or not isinstance(outer.op, ast.And):
        return None
    *before, last = outer.values
    available = all(
        isinstance(value, ast.Call) and ctx.names.qualified(value.func) == "torch.cuda.is_available"
        for value in before
    )
    return outer if last is call and available else None


def _is_tried_for_device(call: ast.Call, ctx: Context) -> bool:
    """Whether the call stands in a `try` that names a device, and whose handler names another one.

    The handler then decides that the program runs on the CPU.
    """
    attempt = next((outer for outer in ctx.ancestors(call) if isinstance(outer, ast.Try)), None)
    if attempt is None:
        return False
    inside = [part for statement in attempt.body for part in ast.walk(statement)]
    caught = [part for handler in attempt.handlers for part in ast.walk(handler)]
    named = any(
        is_cuda_string(part) or (isinstance(part, ast.Constant) and part.value == "jax") for part in inside
    )
    return named and any(isinstance(part, ast.Constant) and part.value == "cpu" for part in caught)


def _serves_another(call: ast.Call, name: str, ctx: Context) -> bool:
    """Whether the call is an argument of another `torch.cuda` call, which is reported itself."""
    outer = ctx.parent(call)
    if isinstance(outer, ast.keyword):
        outer = ctx.parent(outer)
    return (
        name == "current_device"
        and isinstance(outer, ast.Call)
        and cuda_call(ctx.names.qualified(outer.func)) is not None
    )


def _chooses_many_devices(call: ast.Call, ctx: Context) -> bool:
    """Whether the count only decides if there are several GPUs, for which 0 is right on TPU.

    That includes a choice of NCCL, but not the choice of a device by its index.
    """
    compared = False
    comparison = ctx.parent(call)
    choice = ctx.parent(comparison) if isinstance(comparison, ast.Compare) else None
    if isinstance(comparison, ast.Compare) and _asks_for_any(comparison, call):
        return isinstance(choice, ast.IfExp) and _chooses_backend(choice)
    if isinstance(choice, ast.If | ast.IfExp) and choice.test is comparison and _takes_one(choice):
        return False
    if (
        isinstance(choice, ast.If | ast.IfExp)
        and choice.test is comparison
        and _chooses_device(comparison, ctx)
    ):
        return False
    for outer in ctx.ancestors(call):
        if isinstance(outer, ast.Compare):
            compared = True
        elif isinstance(outer, ast.If | ast.Assert) and compared:
            return isinstance(outer, ast.If) and not isinstance(outer.body[-1], ast.Raise)
        elif isinstance(outer, ast.stmt):
            break
    return compared


def _chooses_device(comparison: ast.expr, ctx: Context) -> bool:
    """Whether a comparison only chooses the device, and wraps no module for several GPUs."""
    guard = ctx.devices.guard(comparison)
    names = {
        ctx.names.qualified(part) for part in guard.reached if isinstance(part, ast.Name | ast.Attribute)
    }
    return guard.device is not None and not guard.stays and names.isdisjoint({*WRAPPERS, START})


def _asks_for_any(comparison: ast.Compare, count: ast.expr) -> bool:
    """Whether the comparison checks for at least one GPU, as `> 0`, `>= 1` and `== 0` do."""
    match comparison:
        case ast.Compare(left, [operator], [ast.Constant(value=int(number))]) if left is count:
            return isinstance(operator, _OF_NONE if number == 0 else _OF_ONE) and number in (0, 1)
        case ast.Compare(ast.Constant(value=int(number)), [operator], [right]) if right is count:
            return isinstance(operator, _TO_NONE if number == 0 else _TO_ONE) and number in (0, 1)
    return False


def _takes_one(choice: ast.If | ast.IfExp) -> bool:
    """Whether the condition selects a device by its index, as `device_count() >= i + 1` does."""
    body = choice.body if isinstance(choice.body, list) else [choice.body]
    inside = [node for part in body for node in ast.walk(part)]
    named = any(
        is_cuda_string(node)
        or is_formatted_cuda(node)
        or (isinstance(node, ast.Constant) and node.value == "jax")
        for node in inside
    )
    return named and any(isinstance(node, ast.Name) for node in _numbers(choice.test))


def _numbers(test: ast.expr) -> Iterator[ast.AST]:
    """The nodes of the expressions that a count is compared with."""
    sides = (test.left, *test.comparators) if isinstance(test, ast.Compare) else ()
    for side in sides:
        if not isinstance(side, ast.Call):
            yield from ast.walk(side)


def _chooses_backend(choice: ast.IfExp) -> bool:
    return any(
        isinstance(part, ast.Constant) and part.value == "nccl" for part in (choice.body, choice.orelse)
    )
