"""`torch.load` of a whole module, which needs `weights_only=False`.

## What it does

The rule reports `torch.load` without the argument `weights_only` if the program uses the loaded value as a
module:

- it calls `eval()`, `train()`, `parameters()`, `state_dict()`, `load_state_dict()`, `to()` or `cuda()` of the
  value of `torch.load(...)`, or of the variable that holds it;
- it loads and calls the value in one expression, as in `torch.load(path)(x)`.

For `to()` and `cuda()`, which tensors have, too, one of the other methods has to be called as well.
The rule does not report `torch.load` with `pickle_module`.

## Why it matters

Since torch 2.6, the default of `weights_only` is `True`, which allows only tensors, numbers, strings and
containers of these.
A file that was written with `torch.save(model, path)` contains a whole module.
`torch.load(path)` then raises `UnpicklingError: Weights only load failed`.

These results were measured with torch 2.13.0, in plain PyTorch and with torchax.

## Fix safety

The fix is unsafe: with `weights_only=False`, the file can run any code when it is loaded.
Apply the fix only if you trust the source of the file.

A file with the tensors alone does not need the argument: save `model.state_dict()`, and load it with
`model.load_state_dict(torch.load(path))`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Applicability, Context, Finding, Rule

rule = Rule(
    "UPG104",
    "`torch.load` of a whole module, which needs `weights_only=False`",
    module=__name__,
    fix=Applicability.UNSAFE,
    optional=True,
    targets=EVERY_TARGET,
)

#: Methods that, of all values in a file, only modules have; what `torch.load` returns may be an optimizer.
_OF_MODULES = ("eval", "train", "parameters", "state_dict", "load_state_dict", "named_parameters")


@rule.on(ast.Call, named={"load"})
def loaded(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "torch.load" or len(call.args) > 2:
        return
    if any(word.arg in (None, "weights_only", "pickle_module") for word in call.keywords):
        return
    if _is_used_as_module(call, ctx):
        edit = ctx.rewrite.add_argument(call, "weights_only=False")
        title = "add `weights_only=False`, which trusts the file"
        fix = ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)
        message = "`torch.load` loads no modules by default, and raises `UnpicklingError` for this file"
        yield ctx.finding(call, message, fix)


def _is_used_as_module(call: ast.Call, ctx: Context) -> bool:
    value, outer = call, ctx.parent(call)
    while isinstance(outer, ast.Attribute) and isinstance(around := ctx.parent(outer), ast.Call):
        if outer.attr in _OF_MODULES:
            return True
        if outer.attr not in ("to", "cuda", "cpu", "float", "half"):
            return False
        value, outer = around, ctx.parent(around)
    if isinstance(outer, ast.Call) and outer.func is value:
        return True
    if not isinstance(outer, ast.Assign) or len(outer.targets) != 1:
        return False
    target, function = outer.targets[0], ctx.function_body
    if not isinstance(target, ast.Name | ast.Attribute):
        return False
    if isinstance(target, ast.Name) and len(ctx.names.assigned_values(target)) != 1:
        return False
    return any(
        found.lineno > call.lineno and ctx.at(at.scope).function_body is function
        for method in _OF_MODULES
        for found, at in ctx.calls_on(target, method)
    )
