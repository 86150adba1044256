"""Checkpoint loaded directly onto a CUDA or torchax device.

## What it does

The rule reports `torch.load` if its `map_location` is a CUDA or torchax device:

- `map_location="cuda"`, also with an index, such as `f"cuda:{rank}"`, or as a value of a dictionary;
- `lambda storage, location: storage.cuda()`;
- `map_location="jax"`;
- a variable or attribute that holds the device of the program.
  tpulint recognizes such a variable if any file assigns a literal such as `"cuda"` to its name.
  tpulint also recognizes a function parameter if any file passes such a literal to it.

The rule does not report a location that the program computes in another way. The rule also does not report a
location that falls back to the CPU if CUDA is not available.

In programs that put tensors on a CUDA or torchax device, the rule also reports `torch.load` of a whole module
that the program never moves to a device. The rule reports such a call whether the file contains the module
alone, or a list that contains the module. A loaded value counts as a module if other code assigns a module to
the same name, or if the program calls `parameters()`, `eval()` or `train()` on the value.

## Why it matters on TPU

- With a CUDA location, `torch.load` raises `RuntimeError: Attempting to deserialize object on a CUDA device
  but torch.cuda.is_available() is False`.
- With the location `"jax"`, `torch.load` raises
  `AttributeError: module 'torchax.device_module' has no attribute 'device'`.
- `torch.load` loads a whole module onto the device from which the module was saved.
  Under torchax, a program can save a module only while the module is on the CPU, because torchax tensors
  cannot be pickled.
  `torch.load` therefore loads such a module onto the CPU.

## Fix safety

The fix is unsafe:

- The fix replaces the location with `"cpu"`, so the loaded tensors are CPU tensors.
  `load_state_dict` copies these tensors to the device of the module.
  If the program uses a loaded tensor without `load_state_dict`, add `.to("jax")` to the tensor by hand.
- For a whole module, the fix adds code that moves the loaded module to the device. Later code that expects
  the module on the CPU may then raise.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Applicability, Change, Context, Device, Finding, Rule, Static
from tpulint.rules_api.syntax import is_cuda_location, is_cuda_string, is_formatted_cuda

rule = Rule(
    "TPU704",
    "checkpoint loaded directly onto a CUDA or torchax device",
    module=__name__,
    fix=Applicability.UNSAFE,
    targets=EVERY_TARGET,
)

_OF_MODULES = frozenset({"parameters", "eval", "train"})
_MOVES = frozenset({"to", "cuda", "cpu"})


@rule.on(ast.Call, named={"load"})
def loaded(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "torch.load":
        return
    place = next((k.value for k in call.keywords if k.arg == "map_location"), None)
    if place is None and len(call.args) > 1:
        place = call.args[1]
    if place is not None and ctx.devices.is_host_without_cuda(place):
        place = None
    device = ctx.text(place) if isinstance(place, ast.Name | ast.Attribute) else ctx.rewrite.device
    moved = list(_moved(call, device, ctx))
    name = _device(place, ctx) if place is not None else None
    if name == ctx.program.target.device and ctx.program.target.loads:
        return
    if place is not None and name is not None:
        edit = ctx.rewrite.replace(place, ctx.rewrite.quoted("cpu", place))
        title = 'replace the value of `map_location` with `"cpu"`'
        title += ", and move the loaded module to the device" if moved else ""
        fix = ctx.rewrite.fix(title, edit, *moved, applicability=Applicability.UNSAFE)
        target = ctx.program.target
        message = f"with {target.title}, `torch.load` can load tensors only onto the CPU, not onto `{name}`"
        if target.loads:
            message = f"a TPU host has no device `{name}` onto which `torch.load` could load tensors"
        yield ctx.finding(place, message, fix)
    elif moved and place is None:
        title = f"move the loaded module to the device with `.to({device})`"
        fix = ctx.rewrite.fix(title, *moved, applicability=Applicability.UNSAFE)
        message = "`torch.load` loads this module onto the CPU, so the module does not run on the TPU"
        yield ctx.finding(call, message, fix)


def _device(place: ast.expr, ctx: Context) -> str | None:
    """The name of the location, if torchax cannot load tensors to it; None if it can."""
    kind = ctx.types.of(place)
    name = kind.type if isinstance(kind, Device) else kind.value if isinstance(kind, Static) else None
    if isinstance(name, str) and name.partition(":")[0] in ("cuda", "jax"):
        return name
    given = ctx.names.assigned_values(place) if isinstance(place, ast.Name) else []
    for value in (place, *given):
        targets = value.values if isinstance(value, ast.Dict) else [value]
        if any(is_cuda_string(target) or is_formatted_cuda(target) for target in targets):
            return ctx.text(place)
        if is_cuda_location(value):
            return "cuda"
    is_chosen = ctx.program.serves_device and any(_is_accelerator(value, ctx) for value in given)
    if not is_chosen and (name or not ctx.devices.holds_literal_device(place)):
        return None
    return ctx.text(place)


def _is_accelerator(value: ast.expr, ctx: Context) -> bool:
    """Whether the value contains `torch.accelerator.current_accelerator()`."""
    calls = (node for node in ast.walk(value) if isinstance(node, ast.Call))
    return any(ctx.names.qualified(call.func) == "torch.accelerator.current_accelerator" for call in calls)


def _moved(call: ast.Call, device: str, ctx: Context) -> Iterator[Change]:
    """The edits that move whole modules that the call returns, by themselves or among other values."""
    outer = ctx.parent(call)
    if not isinstance(outer, ast.Assign) or len(outer.targets) != 1 or not ctx.program.serves_device:
        return
    target = outer.targets[0]
    if ctx.devices.only_with_cuda(call):
        return
    if not isinstance(target, ast.Tuple | ast.List):
        if _is_module_at_rest(target, call, ctx):
            yield ctx.rewrite.wrap(call, "", f".to({device})")
        return
    modules = [ctx.text(one) for one in target.elts if _is_module_at_rest(one, call, ctx)]
    if modules and ctx.span(outer).end == ctx.span(call).end:
        yield ctx.rewrite.insert_after(
            outer, ctx.rewrite.lines(outer, *(f"{name} = {name}.to({device})" for name in modules))
        )


def _is_module_at_rest(target: ast.expr, call: ast.Call, ctx: Context) -> bool:
    """Whether `torch.load` returns a whole module here, and the function does not move it."""
    if not isinstance(target, ast.Name | ast.Attribute):
        return False
    asked = {name for name in _OF_MODULES | _MOVES if _is_asked(target, name, call, ctx)}
    if asked & _MOVES:
        return False
    found = ctx.names.lookup(target.id) if isinstance(target, ast.Name) else None
    given = [(b.value, found[0]) for b in found[1] if b.value is not None] if found is not None else []
    return bool(asked) or any(ctx.types.is_module(ctx.at(scope).types.of(value)) for value, scope in given)


def _is_asked(value: ast.expr, method: str, load: ast.Call, ctx: Context) -> bool:
    """Whether the function calls a method of the loaded value after the call."""
    return any(
        at.scope.function is ctx.scope.function and call.lineno > load.lineno
        for call, at in ctx.calls_on(value, method)
    )
