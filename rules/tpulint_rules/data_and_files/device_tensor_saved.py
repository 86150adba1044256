"""Device tensors saved without a copy to the host.

## What it does

In programs that put tensors on a CUDA or torchax device, the rule reports `torch.save`, `pickle.dump` and
`pickle.dumps` of:

- the `state_dict()` of a module or an optimizer;
- a whole module or optimizer;
- a device tensor.

The rule also reports such a value if it is inside a dictionary or a list, if it is stored in a variable, or
if the program passes it to a function that saves it. This function may be in another file.
The rule does not report a value that the program copies to the host before it saves the value.

## Why it matters on TPU

torchax tensors cannot be pickled.
`torch.save` raises `RuntimeError:
<pybind11_builtins.pybind11_detail_function_record_v1_system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1 object> is
not pickleable`, possibly only after hours of training.
Inside the torchax environment, CPU tensors can be saved as usual, and PyTorch can load the resulting file
without torchax.

## Fix safety

The fix is unsafe, because a saved state then lacks the attribute `_metadata`, and a saved module is on the
CPU when a program loads it.

For a `state_dict()` or a tensor, the fix copies every tensor in the saved value to the host:

- The fix finds tensors at any depth of dictionaries, lists and tuples.
  The fix does not change objects of other classes.
- The copied state of a module or an optimizer equals the original state, but its dictionary lacks the
  attribute `_metadata`.
  A few modules read `_metadata` when they load a state, to recognize states that an older release of PyTorch
  saved.

For a whole module, the fix adds `pickle_module=torchax_compat.data.cpu_pickle`, of the runtime:

- `cpu_pickle` saves device tensors as CPU tensors, in any attribute of any object.
- PyTorch can load the file without torchax.
  The loaded module is on the CPU; the fix of TPU704 (`checkpoint-device`) then moves it to the device.

## Without a fix

`pickle.dump` of a whole module or optimizer has no automatic fix.
Save the `state_dict()` of the module or optimizer, or call `torch.save` instead of `pickle.dump`:
`torch.save` has a fix.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from tpulint.knowledge.files import SAVE
from tpulint.knowledge.runtime import PACKAGE
from tpulint.rules_api import Applicability, Context, Finding, Fix, Instance, Kind, Rule, Unknown
from tpulint.rules_api.syntax import is_name

rule = Rule(
    "TPU705", "device tensors saved without a copy to the host", module=__name__, fix=Applicability.UNSAFE
)

#: What has a state of plain numbers is called so.
_NUMBERS_ALONE = ("sched", "scaler", "sampler", "loader", "saver", "tracker", "logger", "args", "config")
_PICKLE = f"{PACKAGE}.data.cpu_pickle"
#: Through so many names and calls a value is followed.
_DEPTH = 3


@rule.on(ast.Call, named={"save", "dump", "dumps"})
def saved(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in SAVE or not ctx.program.serves_device or ctx.devices.only_with_cuda(call):
        return
    value = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "obj"), None)
    if value is None or any(keyword.arg == "pickle_module" for keyword in call.keywords):
        return
    message = f"`{name}` raises for device tensors, because torchax tensors cannot be pickled"
    if _holds(_is_whole, value, ctx, _DEPTH):
        by_torch = name == "torch.save" and len(call.args) < 3
        yield ctx.finding(value, message, _pickled(call, ctx) if by_torch else None)
    elif _holds(_is_state, value, ctx, _DEPTH) or _holds(_is_tensor, value, ctx, _DEPTH):
        yield ctx.finding(value, message, _on_host(value, ctx))


@rule.on(ast.Module)
def handed_over(_tree: ast.Module, ctx: Context) -> Iterator[Finding]:
    for value, scope in ctx.program.saved_elsewhere():
        at = ctx.at(scope)
        if not at.program.serves_device or at.devices.only_with_cuda(value):
            continue
        if _holds(_is_state, value, at, _DEPTH) or _holds(_is_tensor, value, at, _DEPTH):
            yield at.finding(
                value,
                "this call saves the value to a file, but the torchax tensors in the value cannot be pickled",
                _on_host(value, at),
            )


def _holds(
    wanted: Callable[[ast.expr, Context], bool], value: ast.expr | None, ctx: Context, depth: int
) -> bool:
    """Whether a module, optimizer, state or device tensor is among the saved values.

    The values are followed through dictionaries, lists, tuples and names; `wanted` says which of them count.
    """
    match value:
        case ast.expr() if wanted(value, ctx):
            return True
        case ast.Call(func=ast.Name(id="dict"), keywords=keywords):
            return any(_holds(wanted, keyword.value, ctx, depth) for keyword in keywords)
        case ast.Call(args=[made]) if depth and ctx.names.qualified(value.func) == "dataclasses.asdict":
            calls = [one for one in (made, *ctx.names.assigned_values(made)) if isinstance(one, ast.Call)]
            items = [item for one in calls for item in (*one.args, *(k.value for k in one.keywords))]
            return any(_holds(wanted, item, ctx, depth - 1) for item in items)
        case ast.Dict(values=values) | ast.List(elts=values) | ast.Tuple(elts=values):
            return any(_holds(wanted, item, ctx, depth) for item in values)
        case ast.Name() if depth and ctx.names.is_parameter(value):
            return any(_holds(wanted, given, at, depth - 1) for given, at in ctx.passed(value))
        case ast.Name() if depth and not _goes_item_by_item(value, ctx):
            values = [*ctx.names.assigned_values(value), *_items(value, ctx)]
            return any(_holds(wanted, given, ctx, depth - 1) for given in values)
    return False


def _is_state(value: ast.expr, ctx: Context) -> bool:
    """Whether the value is the state of a module or an optimizer."""
    match value:
        case ast.Call(func=ast.Attribute(attr="state_dict", value=owner)):
            return _has_tensors(owner, ctx)
    return False


def _is_tensor(value: ast.expr, ctx: Context) -> bool:
    """Whether the value is a device tensor: this file moves tensors to a device, and not this one back."""
    kind = ctx.types.of(value)
    return ctx.program.places_tensors and kind.is_traced and not _goes_to_host(value, ctx)


def _is_whole(value: ast.expr, ctx: Context) -> bool:
    """Whether the value is a module or an optimizer, by its inferred type or its use of `parameters`."""
    if isinstance(value, ast.Attribute) and value.attr == "module":  # of a wrapper
        return _is_whole(value.value, ctx)
    if not isinstance(value, ast.Name | ast.Attribute) or _goes_to_host(value, ctx):
        return False
    kind = ctx.types.of(value)
    return _is_learned(kind, ctx) or (isinstance(kind, Unknown) and _has_parameters(value, ctx))


def _is_learned(kind: Kind, ctx: Context) -> bool:
    """Whether the value is a module or an optimizer."""
    if not isinstance(kind, Instance):
        return False
    is_scheduler = kind.cls.startswith("torch.optim.lr_scheduler.")
    return ctx.types.is_module(kind) or (kind.cls.startswith("torch.optim.") and not is_scheduler)


def _has_parameters(value: ast.expr, ctx: Context) -> bool:
    """Whether the function calls `parameters` of the value."""
    return any(True for name in ("parameters", "named_parameters") for _ in _calls_on(value, name, ctx))


def _goes_to_host(value: ast.expr, ctx: Context) -> bool:
    """Whether the function moves the value to the CPU, before or after."""
    return any(True for _ in _calls_on(value, "cpu", ctx)) or any(
        ctx.text(argument).strip("'\"") == "cpu"
        for call in _calls_on(value, "to", ctx)
        for argument in call.args
    )


def _calls_on(value: ast.expr, method: str, ctx: Context) -> Iterator[ast.Call]:
    """The calls of a method on a value; for a name, those in the same function."""
    for call, at in ctx.calls_on(value, method):
        if isinstance(value, ast.Attribute) or at.scope.function is ctx.scope.function:
            yield call


def _items(name: ast.Name, ctx: Context) -> Iterator[ast.expr]:
    """The values that the function assigns to items of a dictionary."""
    for statement in ctx.function_body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign) and any(
                isinstance(target, ast.Subscript) and is_name(target.value, name.id)
                for target in node.targets
            ):
                yield node.value


def _goes_item_by_item(name: ast.Name, ctx: Context) -> bool:
    """Whether the function replaces all items with copies, as `state[key] = state[key].cpu()` does."""
    for statement in ctx.function_body:
        for node in ast.walk(statement):
            match node:
                case ast.Assign(
                    targets=[ast.Subscript(value=of, slice=ast.Name())], value=ast.Call(func=copy)
                ):
                    copies = ast.unparse(node.value).endswith(
                        (".cpu()", ".to('cpu')", ".to(torch.device('cpu'))")
                    )
                    if is_name(of, name.id) and copies and isinstance(copy, ast.Attribute):
                        return True
    return False


def _has_tensors(owner: ast.expr, ctx: Context) -> bool:
    """Whether the state of the object has tensors, which may be on the device."""
    if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute) and owner.func.attr == "cpu":
        return False
    kind = ctx.types.of(owner)
    if isinstance(kind, Instance):
        return _is_learned(kind, ctx)
    # Of what is unknown the name decides; this only ever keeps the rule silent.
    name = ctx.text(owner).rpartition(".")[2].lower()
    return isinstance(kind, Unknown) and not any(word in name for word in _NUMBERS_ALONE)


def _on_host(value: ast.expr, ctx: Context) -> Fix | None:
    title = "copy the tensors to the CPU with `.cpu()` before they are saved"
    if ctx.types.of(value).is_tensor:
        edit = ctx.rewrite.replace(value, f"{ctx.rewrite.operand(value)}.cpu()")
        return ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)
    imports = ctx.rewrite.imports("import torch", "from torch.utils._pytree import tree_map_only")
    if imports is None:
        return None
    edit = ctx.rewrite.replace(value, f"tree_map_only(torch.Tensor, torch.Tensor.cpu, {ctx.text(value)})")
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)


def _pickled(call: ast.Call, ctx: Context) -> Fix | None:
    imports = ctx.rewrite.runtime_import()
    if imports is None:
        return None
    edit = ctx.rewrite.add_argument(call, f"pickle_module={_PICKLE}")
    title = f"add `pickle_module={_PICKLE}`, which saves device tensors as CPU tensors"
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE, serves_cuda=True)
