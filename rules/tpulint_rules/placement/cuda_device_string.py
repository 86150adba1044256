"""CUDA device named by a string.

## What it does

Reports a string that names a CUDA device where torch expects a device.
The string is one of these:

- `"cuda"` or `"cuda:0"`;
- a string into which an index is inserted, such as `f"cuda:{rank}"`.

The program uses the string in one of these ways:

- as an argument of torch: `.to("cuda")`, `device="cuda"`, `torch.device("cuda")`;
- as a value that any file of the project later passes to torch as a device.
  tpulint follows variables, constants and attributes, default values of function parameters, fields and keys
  of a configuration, and the defaults and choices of command-line options.

Strings that are not used as a device (dictionary keys, messages, backend names) are not reported.

## Why it matters on TPU

Inside the torchax environment, `.to("cuda")` works on a CPU tensor, and most factory functions accept
`device="cuda"`.
Other calls inside the torchax environment raise `AssertionError: Torch not compiled with CUDA enabled`:

- `.to("cuda")` on a tensor that is already on the `jax` device;
- `linspace`, `*_like` and `new_*` with a CUDA device.

Under `jax_jit`, `.to("cuda")` raises `TracerArrayConversionError`.
In all of these calls, the device `"jax"` works.

## Fix safety

In a program that does not enter the torchax environment yet, the fix is unsafe: `"jax"` raises there until
the fix of TPU001 (`missing-torchax-environment`) is applied, too.
Otherwise, the fix is safe if the string literal is an argument of torch.
The fix is unsafe in these cases:

- An index is inserted into the string, as in `f"cuda:{rank}"`. The fix removes the index. The fixed code uses
  `"jax"`, which stands for all devices of the host at once, so the rank no longer selects a device.
- The program stores the string, or passes it to other functions, before it uses the string as a device. If
  the program also uses the string for another purpose, such as a message or a file name, the message or the
  file name then contains `jax`, too.
- The string is the argument of the method `to` of an object of unknown type.
  If the object is not a tensor or a module, its method `to` may not accept `"jax"`.

If the file creates a `torch.device("jax")` at import time, the fix also adds `import torchax`.
Without `import torchax`, `torch.device("jax")` raises.

## Without a fix

A device string has no fix if the program also passes it to a `torch.cuda` function that tpulint cannot
replace.
Remove the call of that `torch.cuda` function, or guard the call with `if torch.cuda.is_available():`.
tpulint then offers a fix for the device string.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.cuda_api import cuda_call
from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Applicability, Change, Context, Finding, Rule, Unknown
from tpulint.rules_api.syntax import is_cuda_string, is_formatted_cuda, starts_cuda

rule = Rule(
    "TPU102",
    "CUDA device named by a string",
    module=__name__,
    fix=Applicability.SAFE,
    targets=EVERY_TARGET,
)

#: Calls that have rules of their own.
_REPORTED = ("torch.set_default_device", "torch.Generator")
MESSAGE = "`{}` names a CUDA device, which a TPU host does not have; the TPU is the torchax device `jax`"


@rule.on(ast.Constant, named=starts_cuda)
def cuda_string(literal: ast.Constant, ctx: Context) -> Iterator[Finding]:
    name = _whole_name(literal, ctx)
    if name is not None:
        yield from _named_device(name, ctx)


def _whole_name(literal: ast.Constant, ctx: Context) -> ast.expr | None:
    """Whether the string is a CUDA device name, or part of one; the whole expression, or None."""
    outer = ctx.parent(literal)
    if isinstance(outer, ast.Attribute):
        outer = ctx.parent(outer)
    if isinstance(outer, ast.expr) and is_formatted_cuda(outer):
        return outer
    return literal if is_cuda_string(literal) else None


def _named_device(node: ast.expr, ctx: Context) -> Iterator[Finding]:
    slot: ast.expr = node
    outer = ctx.parent(node)
    if any(ctx.devices.is_device_choice(around) for around in ctx.ancestors(node)):
        return  # the choice is reported as a whole
    while isinstance(outer, ast.BoolOp) or (isinstance(outer, ast.IfExp) and outer.test is not slot):
        slot, outer = outer, ctx.parent(outer)
    if isinstance(outer, ast.keyword):
        outer = ctx.parent(outer)
    applicability = Applicability.SAFE
    if isinstance(outer, ast.Call) and ctx.names.qualified(outer.func) in _REPORTED:
        return
    if isinstance(outer, ast.Call) and ctx.devices.takes_device(outer, slot):
        if isinstance(outer.func, ast.Attribute) and isinstance(ctx.types.of(outer.func.value), Unknown):
            named = ctx.names.qualified(outer.func) is not None
            applicability = Applicability.SAFE if named else Applicability.UNSAFE
    elif ctx.devices.becomes_device(node):
        applicability = Applicability.UNSAFE
    else:
        return
    imports: tuple[Change, ...] | None = ()
    if ctx.devices.is_made_on_import(node):
        imports = ctx.rewrite.imports("import torchax")
    if is_formatted_cuda(node):
        applicability = Applicability.UNSAFE
    message = MESSAGE.format(ctx.text(node))
    for_cuda = _reaches_cuda_call(outer, ctx)
    if for_cuda and ctx.devices.only_with_cuda(node):
        return
    if for_cuda or imports is None:
        yield ctx.finding(node, message)
        return
    title = f"replace `{ctx.text(node)}` with the torchax device `{ctx.rewrite.quoted('jax', node)}`"
    fix = ctx.rewrite.fix(title, _jax(node, outer, ctx), *imports, applicability=applicability)
    yield ctx.finding(node, message, fix)


def _reaches_cuda_call(outer: ast.AST | None, ctx: Context) -> bool:
    """Whether a function of `torch.cuda` receives the device, and so needs a CUDA device."""
    around = ctx.parent(outer) if isinstance(outer, ast.Call) else None
    if isinstance(around, ast.Call) and (ctx.names.qualified(around.func) or "").startswith("torch.cuda."):
        return True
    statement = ctx.statement(outer) if isinstance(outer, ast.Call) else outer
    if not isinstance(statement, ast.Assign):
        return False
    names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
    calls = [call for name in names for call in ctx.scope.passed.get(name, ())]
    if ctx.devices.only_with_cuda(statement):
        return any((ctx.names.qualified(call.func) or "").startswith("torch.cuda.") for call in calls)
    return any(_keeps_to_cuda(call, ctx) for call in calls)


def _keeps_to_cuda(call: ast.Call, ctx: Context) -> bool:
    """Whether the call of `torch.cuda` stays, and also runs without CUDA."""
    name = ctx.names.qualified(call.func) or ""
    if not name.startswith("torch.cuda.") or name == "torch.cuda.synchronize":
        return False
    known = cuda_call(name)
    goes = known is not None and (known[1].removable or bool(known[1].instead))
    return not goes and not ctx.devices.only_with_cuda(call)


def _jax(node: ast.expr, outer: ast.AST | None, ctx: Context) -> Change:
    """The edit that replaces the literal, or all of `torch.device("cuda", 0)`, whose index goes too."""
    if (
        isinstance(outer, ast.Call)
        and ctx.names.qualified(outer.func) == "torch.device"
        and len(outer.args) + len(outer.keywords) > 1
    ):
        return ctx.rewrite.replace(outer, f"{ctx.text(outer.func)}({ctx.rewrite.quoted('jax', node)})")
    return ctx.rewrite.replace(node, ctx.rewrite.quoted("jax", node))
