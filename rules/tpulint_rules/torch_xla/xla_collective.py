"""Communication between processes of torch_xla.

## What it does

Reports `xm.rendezvous`, `xm.mesh_reduce`, `xm.all_reduce` and `xm.broadcast_master_param`.

## Why it matters on TPU

Without torch_xla, these functions do not exist.
On torchax, one process uses all devices of the host, and there are no other processes to wait for.

## Fix safety

The fix is unsafe, because it assumes that one process uses all devices.

- `xm.mesh_reduce(tag, value, function)` becomes `function(torchax_compat.distributed.gather_values(value))`.
  `gather_values` returns a list with the value of each rank, or of the single process.
- The fix removes `xm.rendezvous(tag)` and `xm.broadcast_master_param(model)`, because one process has
  nothing to wait for, and a single copy of the parameters.
- In a program that gives each process its share of the samples, `xm.all_reduce(xm.REDUCE_SUM, [a, b])`
  becomes a call of `torch.distributed.all_reduce` for each tensor. In other programs, the fix removes the
  call, or replaces it with the tensor.

## Without a fix

- In a program with a rank for each device, `y = xm.all_reduce(xm.REDUCE_SUM, x)` has no automatic fix,
  because `torch.distributed.all_reduce(x)` writes the result to `x`. Clone `x` first.
- With `groups`, or a list of tensors that is not written in the call, there is no automatic fix either.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.torch_xla import GATHER_VALUES, REDUCTION_TEXTS, REDUCTIONS, short_name
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule

rule = Rule(
    "XLA107", "communication between processes of `torch_xla`", module=__name__, fix=Applicability.UNSAFE
)

_REMOVED = frozenset({"xm.rendezvous", "xm.broadcast_master_param"})
_MESH_REDUCE, _ALL_REDUCE = "xm.mesh_reduce", "xm.all_reduce"
_CALLS = _REMOVED | {_MESH_REDUCE, _ALL_REDUCE}
_PARAMETERS = {
    _MESH_REDUCE: ("tag", "data", "reduce_fn"),
    _ALL_REDUCE: ("reduce_type", "inputs", "scale", "groups", "pin_layout"),
}


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in _CALLS))
def communicated(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = short_name(ctx.names.qualified(call.func))
    if name not in _CALLS or not ctx.program.runs_on_torch_xla:
        return
    message = (
        f"`{name}` communicates between processes of `torch_xla`; on torchax, one process uses all devices"
    )
    yield ctx.finding(call, message, _fix(call, name, ctx))


def _fix(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    statement = ctx.statement(call)
    is_alone = isinstance(statement, ast.Expr) and statement.value is call
    if name in _REMOVED:
        return _removed(statement, name, ctx) if is_alone else None
    given = dict(zip(_PARAMETERS[name], call.args, strict=False))
    given |= {word.arg: word.value for word in call.keywords if word.arg is not None}
    if any(isinstance(one, ast.Starred) for one in call.args):
        return None
    if name == _MESH_REDUCE:
        return _gathered(call, given, ctx)
    groups = given.get("groups")
    if "inputs" not in given or not (groups is None or _is_none(groups)):
        return None
    if ctx.program.has_rank_per_device:
        return _reduced(statement, given, ctx) if is_alone else None
    if is_alone:
        return _removed(statement, name, ctx)
    title = f"replace `{name}` with its argument"
    edit = ctx.rewrite.replace(call, ctx.rewrite.grouped(call, ctx.text(given["inputs"])))
    return ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _removed(statement: ast.stmt, name: str, ctx: Context) -> Fix:
    edit = ctx.rewrite.delete(statement)
    return ctx.rewrite.fix(f"remove the call of `{name}`", edit, applicability=Applicability.UNSAFE)


def _gathered(call: ast.Call, given: dict[str, ast.expr], ctx: Context) -> Fix | None:
    imports = ctx.rewrite.runtime_import()
    if imports is None or not {"data", "reduce_fn"} <= given.keys():
        return None
    function = ctx.rewrite.operand(given["reduce_fn"])
    edit = ctx.rewrite.replace(call, f"{function}({GATHER_VALUES}({ctx.text(given['data'])}))")
    title = f"pass the values of all ranks to `{ctx.text(given['reduce_fn'])}`"
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)


def _reduced(statement: ast.stmt, given: dict[str, ast.expr], ctx: Context) -> Fix | None:
    """The fix that reduces each tensor of a list in place."""
    tensors, kind, imports = given["inputs"], given.get("reduce_type"), ctx.rewrite.imports("import torch")
    if not isinstance(tensors, ast.List | ast.Tuple) or kind is None or imports is None:
        return None
    text = kind.value if isinstance(kind, ast.Constant) else None
    name = REDUCTIONS.get(short_name(ctx.names.qualified(kind)) or "") or REDUCTION_TEXTS.get(str(text))
    if name is None:
        return None
    lines = []
    for tensor in tensors.elts:
        lines.append(f"torch.distributed.all_reduce({ctx.text(tensor)}, torch.distributed.ReduceOp.{name})")
        if "scale" in given:
            lines.append(f"{ctx.rewrite.operand(tensor)}.mul_({ctx.text(given['scale'])})")
    edit = ctx.rewrite.replace(statement, ctx.rewrite.lines(statement, *lines))
    title = "replace `xm.all_reduce` with `torch.distributed.all_reduce`"
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
