"""`copy.deepcopy` of tensors or of a module on the device.

## What it does

In programs that put tensors on a CUDA or torchax device, the rule reports `copy.deepcopy` of:

- tensors;
- modules that were moved to a device;
- a `state_dict()`.

## Why it matters on TPU

- A torchax tensor cannot be deep-copied.
  For example, programs call `copy.deepcopy(model)` to average weights or to keep the best model. On torchax,
  this call raises `TypeError: cannot pickle '_PropertyHolder' object`.
- Inside the torchax environment, CPU tensors cannot be deep-copied, and neither can modules with buffers on
  the CPU.
  `copy.deepcopy` raises `OperatorNotFound: Operator with name aten::set_.source_Storage has no lowering`.
- `torch.optim.swa_utils.AveragedModel` raises, too, because it copies its module with `copy.deepcopy`.

`copy.deepcopy` works in a program that imports the runtime torchax-compat.
In programs that call `backward`, the fix of TPU611 (`backward-on-torchax`) adds the runtime.

## Fix safety

- The fix is safe for a module: the fixed code clones the parameters and buffers, and passes the clones to
  `deepcopy` as its `memo` argument. `deepcopy` copies everything else as before.
  If two attributes of the module share one weight, they also share one weight in the copy.
  If an attribute of the module holds a tensor that is not a parameter or buffer, `deepcopy` still raises.
- The fix is unsafe for a `state_dict()`: it creates a plain dictionary of clones. This dictionary lacks the
  attribute `_metadata`, which a few modules read when they load a state.
- The fix is unsafe for a tensor: it replaces the deep copy with a clone, which does not require gradients
  even if the original tensor does.
- The fix is unsafe in a program that calls `backward`: it adds the runtime torchax-compat, which also
  changes other functions of torch and torchax.

## Without a fix

If the module is not a plain name or attribute, as in `copy.deepcopy(models[0])`, there is no automatic fix.
Assign the module to a variable first, and run `fix` again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.runtime import DISTRIBUTION
from tpulint.rules_api import Applicability, Context, Device, Finding, Fix, Rule, Static, Tensor, Unknown

rule = Rule(
    "TPU706",
    "`copy.deepcopy` of tensors or of a module on the device",
    module=__name__,
    fix=Applicability.SAFE,
)

_PARAMETERS = (
    "{{id(p): torch.nn.Parameter(p.detach().clone(), p.requires_grad) for p in {0}.parameters()}}"
    " | {{id(b): b.detach().clone() for b in {0}.buffers()}}"
)


@rule.on(ast.Call, named={"deepcopy"})
def copied(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "copy.deepcopy" or len(call.args) != 1 or call.keywords:
        return
    if not ctx.program.serves_device or ctx.devices.only_with_cuda(call):
        return
    value = call.args[0]
    kind = ctx.types.of(value)
    # The fixes of such a program bring the runtime, with which `deepcopy` works.
    is_trained = ctx.program.calls_backward
    title = f"add the runtime {DISTRIBUTION}, which makes `deepcopy` work"
    if isinstance(kind, Tensor) and kind.certain:
        message = "`deepcopy` of a tensor raises inside the torchax environment"
        fix = ctx.rewrite.runtime_fix(title) if is_trained else _clone(call, value, ctx)
    elif _is_state(value, ctx):
        message = "`deepcopy` of a `state_dict()` raises inside the torchax environment"
        fix = ctx.rewrite.runtime_fix(title) if is_trained else _clones(call, ctx)
    elif _is_placed_module(value, call, ctx):
        message = "`deepcopy` raises for a module that was moved to the torchax device"
        fix = ctx.rewrite.runtime_fix(title) if is_trained else _copy(call, ctx)
    else:
        return
    if not ctx.program.runtime_handles("deep copies of tensors and modules"):
        yield ctx.finding(call, message, fix)


def _clone(call: ast.Call, value: ast.expr, ctx: Context) -> Fix:
    """The fix that copies a tensor."""
    edit = ctx.rewrite.replace(call, f"{ctx.rewrite.operand(value)}.detach().clone()")
    title = "replace `deepcopy` with `detach().clone()`"
    return ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)


def _is_state(value: ast.expr, ctx: Context) -> bool:
    """Whether the value is the `state_dict()` of a module."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return False
    kind = ctx.types.of(value.func.value)
    return value.func.attr == "state_dict" and (ctx.types.is_module(kind) or isinstance(kind, Unknown))


def _is_placed_module(value: ast.expr, call: ast.Call, ctx: Context) -> bool:
    """Whether the value is a module that was moved to a device, here or by all callers."""
    if isinstance(value, ast.Name) and ctx.names.is_parameter(value):
        given = list(ctx.passed(value))
        return bool(given) and all(
            at.types.is_module(at.types.of(module)) and _is_placed(module, module, at) for module, at in given
        )
    return ctx.types.is_module(ctx.types.of(value)) and _is_placed(value, call, ctx)


def _is_placed(value: ast.expr, call: ast.expr, ctx: Context) -> bool:
    """Whether the module was moved to a device before, in its assignment or by a call of its own."""
    assigned = ctx.names.assigned_values(value)
    if _moves(value, ctx) or (assigned and all(_moves(given, ctx) for given in assigned)):
        return True
    return any(
        _is_before(move, at, call, ctx) and _moves(move, at)
        for name in ("to", "cuda")
        for move, at in ctx.calls_on(value, name)
    )


def _moves(value: ast.expr, ctx: Context) -> bool:
    """Whether the expression moves a module to a device."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return False
    if value.func.attr == "cuda":
        return ctx.types.is_module(ctx.types.of(value.func.value))
    places = [*value.args, *(keyword.value for keyword in value.keywords if keyword.arg == "device")]
    return value.func.attr == "to" and any(_is_device(place, ctx) for place in places)


def _is_device(place: ast.expr, ctx: Context) -> bool:
    kind = ctx.types.of(place)
    name = kind.type if isinstance(kind, Device) else kind.value if isinstance(kind, Static) else None
    if isinstance(name, str) and name:
        return name.partition(":")[0] in ("cuda", "jax")
    if isinstance(kind, Unknown):
        # A module moves to a device, unless the name says otherwise, which only keeps the rule silent.
        return not any(word in ctx.text(place).lower() for word in ("type", "float", "half", "precision"))
    chosen = ctx.names.assigned_values(place) if isinstance(place, ast.Name) else ()
    return isinstance(kind, Device) or any(ctx.devices.is_device_choice(it) for it in chosen)


def _is_before(move: ast.Call, at: Context, call: ast.expr, ctx: Context) -> bool:
    """Whether the move comes first: above in the same function, or in `__init__`."""
    function = at.scope.function
    if function is ctx.scope.function:
        return move.lineno < call.lineno
    return function is not None and getattr(function.node, "name", "") == "__init__"


def _copy(call: ast.Call, ctx: Context) -> Fix | None:
    """The fix that passes copies of the parameters and buffers, which `deepcopy` then does not copy."""
    value = call.args[0]
    imports = ctx.rewrite.imports("import torch")
    if imports is None or not isinstance(value, ast.Name | ast.Attribute):
        return None
    memo = _PARAMETERS.format(ctx.text(value))
    edit = ctx.rewrite.replace(call, f"{ctx.text(call.func)}({ctx.text(value)}, {memo})")
    title = "pass cloned parameters and buffers to `deepcopy` as `memo`, so that it does not copy them itself"
    return ctx.rewrite.fix(title, edit, *imports)


def _clones(call: ast.Call, ctx: Context) -> Fix | None:
    imports = ctx.rewrite.imports("import torch", "from torch.utils._pytree import tree_map_only")
    if imports is None:
        return None
    edit = ctx.rewrite.replace(call, f"tree_map_only(torch.Tensor, torch.clone, {ctx.text(call.args[0])})")
    title = "copy each tensor with `torch.clone` instead of calling `deepcopy`"
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
