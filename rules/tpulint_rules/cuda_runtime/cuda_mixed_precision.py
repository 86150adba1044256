"""CUDA automatic mixed precision (`autocast`, `GradScaler`).

## What it does

Reports:

- `torch.autocast("cuda")`, `torch.amp.autocast` and `torch.cuda.amp.autocast`, used as a context manager, a
  decorator or a value;
- `GradScaler`.

The rule does not report:

- calls with `enabled=False`;
- `autocast` with the dtype `torch.float32`;
- calls for other devices, such as `"cpu"`;
- `autocast` for `"jax"` or for a device in a variable, in programs that import the runtime;
- code that runs only where CUDA is available.

## Why it matters on TPU

Without the runtime, `autocast` has no effect on TPU:

- `autocast` for `cuda` disables itself, with the warning `User provided device_type of 'cuda', but CUDA is
  not available. Disabling`.
- `autocast` for `jax` does not change the dtype of any operation of torchax.
- Inside `torchax.amp.autocast`, `nn.Linear` still computes in float32.

All operations inside `autocast` therefore run in float32, without an error.
The program then does not save the memory and bandwidth that bfloat16 would save.
Instead of using `autocast`, you can convert the model to bfloat16 once, on the host, with `model =
model.to(torch.bfloat16)`.
Convert the inputs of the model to bfloat16, too.
In bfloat16, matrix products lose little precision: on TPU, even a float32 matrix product rounds its inputs to
bfloat16 by default.

`GradScaler` has no effect on TPU, or raises:

- A `GradScaler` for CUDA disables itself, with a warning.
- A `GradScaler` for the torchax device, for example `GradScaler(device.type)`, raises `OperatorNotFound:
  Operator with name aten::_amp_foreach_non_finite_check_and_unscale_ has no lowering`.

bfloat16 has the exponent range of float32, so a program in bfloat16 needs no loss scaling.

## Fix safety

The fix is unsafe because it changes results:

- In a program that moves tensors to a device, the fix replaces the device of `autocast` with `"jax"`.
  With the runtime torchax-compat, `autocast` means on torchax what it means on CUDA: matrix products,
  convolutions and the other operators of PyTorch's list for CUDA run in bfloat16, and operators such as
  `softmax` run in float32.
  Weights stay in float32.
  Statements such as `total += loss.item()` at the end of the `with` block move behind the block.
  The dtype `float16` becomes `bfloat16`.
- In other programs, the fix removes `autocast`.
  On CUDA, the operations that ran in bfloat16 or float16 because of `autocast` then run in float32, and
  return float32 tensors.
- The fix removes a `GradScaler` if the file calls only its methods `scale`, `unscale_`, `step` and `update`.
  Each of these calls becomes the code that a disabled `GradScaler` runs: for example,
  `scaler.step(optimizer)` becomes `optimizer.step()`.
  On CUDA, float16 gradients are then no longer scaled.
- The fix keeps a `GradScaler` that is passed to other functions, stored in an attribute or saved in a
  checkpoint.
  The fix disables this `GradScaler` with `enabled=False`.

## Without a fix

- A decorator has no fix if its line contains a comment or other code.
- A `with` statement has no fix if its layout is unusual.

Remove `autocast` from such a decorator or `with` statement by hand.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.runtime import DISTRIBUTION
from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Applicability, Change, Context, Device, Finding, Fix, Rule, Severity
from tpulint.rules_api.syntax import is_name

rule = Rule(
    "TPU206",
    "CUDA automatic mixed precision (`autocast`, `GradScaler`)",
    module=__name__,
    fix=Applicability.UNSAFE,
    severity=Severity.SLOW,
    targets=EVERY_TARGET,
)

_OF_CUDA = frozenset({"torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast"})
_AUTOCAST = _OF_CUDA | {"torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast"}
_SCALERS = frozenset(
    {
        "torch.amp.GradScaler",
        "torch.amp.grad_scaler.GradScaler",
        "torch.cuda.amp.GradScaler",
        "torch.cuda.amp.grad_scaler.GradScaler",
    }
)
#: The place of `enabled` among its arguments, behind the device.
_ENABLED = 4
#: The arguments of `torch.cuda.amp.autocast`, by position.
_BY_PLACE = ("enabled", "dtype", "cache_enabled")
_TITLE = f"compute in bfloat16 inside `autocast`, with the runtime {DISTRIBUTION}"
_ATOMS = ast.Name | ast.Attribute | ast.Call | ast.Subscript


@rule.on(ast.Call, named={"autocast"})
def autocast(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in _AUTOCAST or not _is_enabled(call, name) or ctx.devices.only_with_cuda(call):
        return
    if name not in _OF_CUDA and not _is_for_accelerator(_argument(call, "device_type", 0), ctx):
        return
    dtype = _argument(call, "dtype", 1)
    if dtype is not None and ctx.names.qualified(dtype) == "torch.float32":
        return  # which is what it stays in
    if not _names_cuda(call, name) and ctx.program.runtime_handles("automatic mixed precision"):
        return
    message = f"`{name}` has no effect on TPU: the operations inside stay in float32, without an error"
    if ctx.program.serves_device and not _names_cuda(call, name):
        fix = ctx.rewrite.runtime_fix(_TITLE)  # elsewhere the runtime comes with the environment
    else:
        fix = _on_jax(call, name, ctx) or _without_autocast(call, ctx)
    yield ctx.finding(call, message, fix)


@rule.on(ast.Call, named={"GradScaler"})
def grad_scaler(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in _SCALERS or not _is_enabled(call, name) or ctx.devices.only_with_cuda(call):
        return
    device = _argument(call, "device", None if ".cuda." in name else 0)
    if device is not None and not _is_for_accelerator(device, ctx):
        return
    of_cuda = device is None or (isinstance(device, ast.Constant) and device.value == "cuda")
    does = "disables itself on a TPU host" if of_cuda else "raises on the torchax device"
    fix = _without_scaler(call, ctx) or _disabled_scaler(call, name, ctx)
    if fix is None and device is not None and not of_cuda and ctx.program.keeps_cuda:
        edit = ctx.rewrite.replace(device, '"cuda"')
        fix = ctx.rewrite.fix(
            'replace the device with `"cuda"`, so that `GradScaler` is disabled on a TPU host',
            edit,
            applicability=Applicability.UNSAFE,
        )
    severity = Severity.COSMETIC if of_cuda else Severity.BLOCKS
    message = f"`GradScaler` {does}, where bfloat16 needs no loss scaling"
    yield ctx.finding(call, message, fix, severity=severity)


def _argument(call: ast.Call, keyword: str, position: int | None) -> ast.expr | None:
    if position is not None and position < len(call.args):
        return call.args[position]
    return next((item.value for item in call.keywords if item.arg == keyword), None)


def _is_enabled(call: ast.Call, name: str) -> bool:
    """Whether `enabled` is true, or not passed."""
    first = name in _OF_CUDA
    enabled = _argument(call, "enabled", 0 if first else None)
    return not (isinstance(enabled, ast.Constant) and enabled.value is False)


def _is_for_accelerator(device: ast.expr | None, ctx: Context) -> bool:
    """Whether the device is CUDA or torchax, or unknown in a file that moves tensors to a device."""
    if isinstance(device, ast.Constant):
        return device.value in ("cuda", "jax")
    if isinstance(device, ast.Attribute) and device.attr == "type":
        return isinstance(ctx.types.of(device.value), Device) or ctx.program.places_tensors
    return device is not None and ctx.program.places_tensors


def _names_cuda(call: ast.Call, name: str) -> bool:
    """Whether `autocast` is spelled for CUDA only."""
    device = _argument(call, "device_type", 0)
    return name in _OF_CUDA or (isinstance(device, ast.Constant) and device.value == "cuda")


def _on_jax(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    """The fix that names the device `"jax"`, for which `autocast` computes in bfloat16 with the runtime."""
    if not ctx.program.serves_device:
        return None
    edits: list[Change] = []
    torch = ctx.rewrite.imports("import torch")
    if torch is None:
        return None
    device = _argument(call, "device_type", 0)
    place = ctx.rewrite.quoted("jax", device or call)
    if ctx.program.keeps_cuda:
        place = f"{ctx.rewrite.quoted('cuda', device or call)} if torch.cuda.is_available() else {place}"
    if name in _OF_CUDA:
        named = _named(call, ctx)
        if named is None:
            return None
        edits = [ctx.rewrite.replace(call, f"torch.autocast({', '.join((place, *named))})"), *torch]
    else:
        assert device is not None
        edits = [ctx.rewrite.replace(device, place), *torch]
    edits += _counts_moved_out(ctx.parent(call), ctx)
    return ctx.rewrite.fix(_TITLE, *edits, applicability=Applicability.UNSAFE, serves_cuda=True)


def _counts_moved_out(outer: ast.AST | None, ctx: Context) -> Iterator[Change]:
    """Edits that move the sums of logged numbers at the end of a block, `total += loss.item()`, behind it.

    They are no part of the computation that JAX compiles.
    """
    block = ctx.parent(outer) if isinstance(outer, ast.withitem) else None
    if not isinstance(block, ast.With) or block.body[0].lineno == block.lineno:
        return
    source = ctx.source
    count = 0
    for statement in reversed(block.body[1:]):
        calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
        is_read = any(isinstance(node.func, ast.Attribute) and node.func.attr == "item" for node in calls)
        if not isinstance(statement, ast.AugAssign) or not is_read or source.shares_row(statement):
            break
        count += 1
    if count and not source.ahead_of(block).strip():
        yield ctx.rewrite.move_out(block, count)


def _named(call: ast.Call, ctx: Context) -> list[str] | None:
    """The arguments of `torch.cuda.amp.autocast` by their names."""
    if any(isinstance(one, ast.Starred) for one in call.args) or len(call.args) > len(_BY_PLACE):
        return None
    given = [f"{name}={ctx.text(value)}" for name, value in zip(_BY_PLACE, call.args, strict=False)]
    return given + [ctx.source.text[ctx.span(word).start : ctx.span(word).end] for word in call.keywords]


def _without_autocast(call: ast.Call, ctx: Context) -> Fix | None:
    outer = ctx.parent(call)
    statement = ctx.statement(call)
    edits: tuple[Change, ...] | None
    title = "remove `autocast` and keep the code inside"
    if isinstance(outer, ast.withitem):
        edits = ctx.rewrite.unwrap(statement, outer) if isinstance(statement, ast.With) else None
    elif isinstance(outer, ast.FunctionDef) and call in outer.decorator_list:
        title, edits = "remove the decorator `autocast`", ctx.rewrite.remove_decorator(call)
    else:
        title = "replace `autocast` with `contextlib.nullcontext()`"
        imports = ctx.rewrite.imports("import contextlib")
        edits = (
            (ctx.rewrite.replace(call, "contextlib.nullcontext()"), *imports) if imports is not None else None
        )
    if edits is None:
        return None
    return ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)


def _without_scaler(call: ast.Call, ctx: Context) -> Fix | None:
    """The fix that replaces all uses of a scaler as if it were disabled; None if there are other uses."""
    statement = ctx.statement(call)
    if not isinstance(statement, ast.Assign) or statement.value is not call or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or _is_bound_elsewhere(target, ctx):
        return None
    edits: list[Change] = [ctx.rewrite.delete(statement)]
    used = 0
    for use, scope in ctx.names.all_calls():
        if not isinstance(use, ast.Call) or not isinstance(use.func, ast.Attribute):
            continue
        if is_name(use.func.value, target.id):
            edit = _disabled(use, use.func.attr, ctx.at(scope))
            if edit is None:
                return None
            edits.append(edit)
            used += 1
    if used != sum(1 for _ in ctx.names.loads(target.id)):
        return None
    title = "remove `GradScaler` and call `backward()` and `step()` without it"
    return ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)


def _disabled_scaler(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    """The fix that disables a scaler, whatever its uses."""
    if ctx.program.keeps_cuda or any(keyword.arg is None for keyword in call.keywords):
        return None
    first = 1 if ".cuda." not in name else 0
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    enabled = _argument(call, "enabled", first + _ENABLED)
    asked = "enabled=False"
    edit = (
        ctx.rewrite.replace(enabled, "False")
        if enabled is not None
        else ctx.rewrite.add_argument(call, asked)
    )
    return ctx.rewrite.fix("pass `enabled=False` to `GradScaler`", edit, applicability=Applicability.UNSAFE)


def _is_bound_elsewhere(target: ast.Name, ctx: Context) -> bool:
    """Whether the file binds the name more than once."""
    return sum(len(scope.bindings.get(target.id, ())) for scope in ctx.names.scopes) != 1


def _disabled(use: ast.Call, method: str, ctx: Context) -> Change | None:
    """The edit that replaces one use of a scaler as if it were disabled."""
    statement = ctx.statement(use)
    alone = isinstance(statement, ast.Expr) and statement.value is use
    if use.keywords or any(isinstance(argument, ast.Starred) for argument in use.args):
        return None
    if method == "scale" and len(use.args) == 1:
        text = ctx.text(use.args[0])
        bare = isinstance(use.args[0], _ATOMS) or not isinstance(ctx.parent(use), ast.Attribute | ast.BinOp)
        return ctx.rewrite.replace(use, text if bare else f"({text})")
    if method in ("unscale_", "update") and alone:
        return ctx.rewrite.delete(statement)
    if method == "step" and use.args and isinstance(use.args[0], _ATOMS):
        rest = ", ".join(ctx.text(argument) for argument in use.args[1:])
        return ctx.rewrite.replace(use, f"{ctx.text(use.args[0])}.step({rest})")
    return None
