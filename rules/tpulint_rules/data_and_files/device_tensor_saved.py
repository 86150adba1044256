"""Tensors of the device that are saved as they are.

## What it does

Flags `torch.save` of what holds `state_dict()` of a module or an optimizer: directly, in a dictionary or
list, in a variable, or handed to the function that saves.
In programs that use a device; what is copied to the host on the way is left alone.

## Why it matters on TPU

Tensors of torchax cannot be pickled: `torch.save` raises `RuntimeError:
<pybind11_builtins.pybind11_detail_function_record_v1_system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1 object>
is not pickleable`, which after hours of training is the first that is heard of it.
Tensors of the host are saved within the environment as ever, and plain torch reads the file without torchax.

## Fix safety

Unsafe: every tensor in what is saved is copied to the host, however deep in dictionaries, lists and tuples it
is; objects of other classes stay as they are.
The copies of a module's and an optimizer's state are equal, but for the attribute `_metadata` of the
dictionary, which a few modules that changed their layout between releases look at when they are loaded.

## Without a fix

A module that is saved whole has to be on the host: `torch.save(model.cpu(), path)`, and then
`model.to("jax")` and a new optimizer; better save its `state_dict()`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix
from tpulint.model.kinds import Instance, Unknown
from tpulint.rule import Context, Rule, is_name

rule = Rule(
    "TPU705", "tensors of the device that are saved as they are", module=__name__, fix=Applicability.UNSAFE
)

#: What has a state of plain numbers is called so.
_NUMBERS_ALONE = ("sched", "scaler", "sampler", "loader", "saver", "tracker", "logger", "args", "config")
#: Through so many names and calls a value is followed.
_DEPTH = 3


@rule.on(ast.Call, named={"save"})
def saved(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.qualified_name(call.func) != "torch.save" or not ctx.serves_device or ctx.only_with_cuda(call):
        return
    value = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "obj"), None)
    if value is not None and _holds_state(value, ctx, _DEPTH):
        yield ctx.finding(value, "`torch.save` cannot pickle tensors of torchax", _on_host(value, ctx))


def _holds_state(value: ast.expr | None, ctx: Context, depth: int) -> bool:
    """Whether a value is the state of a module or an optimizer, or holds one."""
    match value:
        case ast.Call(func=ast.Attribute(attr="state_dict", value=owner)):
            return _has_tensors(owner, ctx)
        case ast.Call(func=ast.Name(id="dict"), keywords=keywords):
            return any(_holds_state(keyword.value, ctx, depth) for keyword in keywords)
        case ast.Dict(values=values) | ast.List(elts=values) | ast.Tuple(elts=values):
            return any(_holds_state(item, ctx, depth) for item in values)
        case ast.Name() if depth and ctx.is_parameter(value):
            return any(_holds_state(given, at, depth - 1) for given, at in ctx.handed(value))
        case ast.Name() if depth:
            values = [*ctx.assigned_values(value), *_items(value, ctx)]
            return any(_holds_state(given, ctx, depth - 1) for given in values)
    return False


def _items(name: ast.Name, ctx: Context) -> Iterator[ast.expr]:
    """What the function puts into a dictionary item by item."""
    for statement in ctx.function_body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign) and any(
                isinstance(target, ast.Subscript) and is_name(target.value, name.id)
                for target in node.targets
            ):
                yield node.value


def _has_tensors(owner: ast.expr, ctx: Context) -> bool:
    """Whether the state of an object has tensors, which may be on the device."""
    if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute) and owner.func.attr == "cpu":
        return False
    kind = ctx.kind(owner)
    if isinstance(kind, Instance):
        return ctx.is_module(kind) or (
            kind.cls.startswith("torch.optim.") and not kind.cls.startswith("torch.optim.lr_scheduler.")
        )
    # Of what is unknown the name decides; this only ever keeps the rule silent.
    name = ctx.text(owner).rpartition(".")[2].lower()
    return isinstance(kind, Unknown) and not any(word in name for word in _NUMBERS_ALONE)


def _on_host(value: ast.expr, ctx: Context) -> Fix | None:
    imports = ctx.imports("import torch", "from torch.utils._pytree import tree_map_only")
    if imports is None:
        return None
    edit = ctx.replace(value, f"tree_map_only(torch.Tensor, torch.Tensor.cpu, {ctx.text(value)})")
    return ctx.fix("copy what is saved to the host", edit, *imports, applicability=Applicability.UNSAFE)
