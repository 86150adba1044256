"""Call that starts or compiles a step of torch_xla.

## What it does

Reports:

- `xm.mark_step()`, `torch_xla.sync()` and `xm.wait_device_ops()`;
- `torch_xla.step()` and `torch_xla.compile()`, as context managers, decorators and functions;
- `xm.add_step_closure(function, args)`;
- `torch_xla.experimental.eager_mode(...)`.

## Why it matters on TPU

torch_xla records operations, and computes them when a step ends.
torchax computes each operation when it is called, or a whole function that is compiled: there is no step to
mark, and `import torch_xla` raises `ModuleNotFoundError`.

## Fix safety

The fix is unsafe, because it is a part of the change from torch_xla to torchax:

- The fix removes calls that mark a step, and keeps the code inside of `with torch_xla.step():`.
- If a call waits for the device, as `torch_xla.sync(wait=True)` and `xm.wait_device_ops()` do, the fix
  replaces it with `jax.block_until_ready(jax.live_arrays())`.
- The fix calls the function of `xm.add_step_closure` at once, because the values that it reads are computed
  when it reads them.
- The fix removes `torch_xla.compile` from functions. The fix of TPU611 (`backward-on-torchax`) compiles the
  computation of a loss, and `torch.compile` compiles other functions.

## Without a fix

- If the result of `torch_xla.step()` or `torch_xla.compile()` is stored in a variable, replace its uses.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.torch_xla import short_name
from tpulint.knowledge.waiting import WAIT_FOR_ALL
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule

rule = Rule(
    "XLA102", "call that starts or compiles a step of `torch_xla`", module=__name__, fix=Applicability.UNSAFE
)

_MARKS = frozenset({"xm.mark_step", "torch_xla.sync", "torch_xla.experimental.eager_mode"})
_CONTEXTS = frozenset({"torch_xla.step", "torch_xla.compile"})
_WAITS = "xm.wait_device_ops"
_CLOSURE = "xm.add_step_closure"
_CALLS = _MARKS | _CONTEXTS | {_WAITS, _CLOSURE}


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in _CALLS))
def step(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = short_name(ctx.names.qualified(call.func))
    if name not in _CALLS or not ctx.program.runs_on_torch_xla:
        return
    if name in _CONTEXTS:
        message = f"`{name}` records a step of `torch_xla`, and torchax has no steps to record"
    elif name == _CLOSURE:
        message = "`xm.add_step_closure` calls its function after a step, and torchax has no steps"
    else:
        message = f"`{name}` computes what `torch_xla` recorded, but torchax computes each operation at once"
    yield ctx.finding(call, message, _fix(call, name, ctx))


@rule.on(ast.Attribute, named={"compile"})
def decorator(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    """`@torch_xla.compile`, without a call."""
    function = ctx.parent(node)
    if short_name(ctx.names.qualified(node)) != "torch_xla.compile" or not ctx.program.runs_on_torch_xla:
        return
    if isinstance(function, ast.FunctionDef) and node in function.decorator_list:
        message = "`torch_xla.compile` records a step of `torch_xla`, and torchax has no steps to record"
        yield ctx.finding(node, message, _without_decorator(node, ctx))


def _fix(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    statement = ctx.statement(call)
    is_alone = isinstance(statement, ast.Expr) and statement.value is call
    if name in _CONTEXTS:
        return _without_context(call, name, ctx)
    if not is_alone:
        return None
    if name == _CLOSURE:
        return _called(call, ctx)
    if name == _WAITS or _waits(call):
        imports = ctx.rewrite.imports("import jax")
        if imports is None:
            return None
        title = f"replace `{name}` with `{WAIT_FOR_ALL}`"
        edit = ctx.rewrite.replace(call, WAIT_FOR_ALL)
        return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
    title = f"remove the call of `{name}`"
    return ctx.rewrite.fix(title, ctx.rewrite.delete(statement), applicability=Applicability.UNSAFE)


def _waits(call: ast.Call) -> bool:
    """Whether the call passes `wait=True`."""
    given = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "wait")]
    return any(not (isinstance(value, ast.Constant) and value.value is False) for value in given)


def _without_context(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    statement, outer = ctx.statement(call), ctx.parent(call)
    if isinstance(outer, ast.withitem) and isinstance(statement, ast.With):
        edits = ctx.rewrite.unwrap(statement, outer)
        if edits is None:
            return None
        title = f"remove `{name}` and keep the code inside"
        return ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)
    if isinstance(outer, ast.FunctionDef) and call in outer.decorator_list:
        return _without_decorator(call, ctx)
    if name == "torch_xla.compile" and call.args and not isinstance(call.args[0], ast.Starred):
        title = f"use `{ctx.text(call.args[0])}` without `torch_xla.compile`"
        edit = ctx.rewrite.reduce(call, call.args[0])
        return ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)
    return None


def _without_decorator(decorator: ast.expr, ctx: Context) -> Fix | None:
    edits = ctx.rewrite.remove_decorator(decorator)
    if edits is None:
        return None
    return ctx.rewrite.fix(
        "remove the decorator `torch_xla.compile`", *edits, applicability=Applicability.UNSAFE
    )


def _called(call: ast.Call, ctx: Context) -> Fix | None:
    """The fix that calls the function of a step closure at once."""
    given = dict(zip(("closure", "args"), call.args, strict=False))
    given |= {word.arg: word.value for word in call.keywords if word.arg is not None}
    closure, arguments = given.get("closure"), given.get("args")
    if closure is None or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    match arguments:
        case None:
            text = ""
        case ast.Tuple(elts=items) | ast.List(elts=items):
            text = ", ".join(map(ctx.text, items))
        case several:
            text = f"*{ctx.text(several)}"
    edit = ctx.rewrite.replace(call, f"{ctx.rewrite.operand(closure)}({text})")
    title = "call the function at once"
    return ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)
