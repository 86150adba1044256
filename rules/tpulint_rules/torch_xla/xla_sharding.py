"""Sharding with torch_xla.

## What it does

Reports `xs.Mesh`, `xs.get_1d_mesh`, `xs.mark_sharding` and `xs.ShardingSpec` of
`torch_xla.distributed.spmd`.

## Why it matters on TPU

torch_xla and JAX both shard arrays over a mesh of devices, and XLA adds the communication.
Without torch_xla, its meshes do not exist. torchax tensors are sharded with the meshes of JAX.

## Fix safety

The fix is unsafe, because it is a part of the change from torch_xla to torchax.

- `xs.Mesh(device_ids, shape, names)` becomes `jax.make_mesh(shape, names, axis_types=...)` with automatic
  axes, over all devices of the program. JAX chooses the order of the devices, and ignores `device_ids`.
- `xs.mark_sharding(x, mesh, spec)` becomes `x.apply_jax_(jax.device_put, NamedSharding(mesh,
  PartitionSpec(...)))`.
  Numbers of axes become their names.
- `xs.ShardingSpec(mesh, spec)` becomes `NamedSharding(mesh, PartitionSpec(...))`.

## Without a fix

- There is no fix if the specification is not written as a tuple, or the result of `xs.mark_sharding` is
  used.
- `xs.set_global_mesh` has no equivalent: pass the mesh on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.torch_xla import short_name
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule

rule = Rule("XLA109", "sharding with `torch_xla`", module=__name__, fix=Applicability.UNSAFE)

_PARAMETERS = {
    "xs.Mesh": ("device_ids", "mesh_shape", "axis_names"),
    "xs.get_1d_mesh": ("axis_name",),
    "xs.mark_sharding": ("t", "mesh", "partition_spec"),
    "xs.ShardingSpec": ("mesh", "partition_spec", "minibatch"),
    "xs.set_global_mesh": ("mesh",),
}
_AUTO = "axis_types=(jax.sharding.AxisType.Auto,)"
_SHARDING = "from jax.sharding import NamedSharding"
_SPEC = "from jax.sharding import PartitionSpec"


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in _PARAMETERS))
def sharding(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = short_name(ctx.names.qualified(call.func))
    if name not in _PARAMETERS or not ctx.program.runs_on_torch_xla:
        return
    given = dict(zip(_PARAMETERS[name], call.args, strict=False))
    given |= {word.arg: word.value for word in call.keywords if word.arg is not None}
    fix = None
    if not any(isinstance(one, ast.Starred) for one in call.args):
        if name in ("xs.Mesh", "xs.get_1d_mesh"):
            fix = _mesh(call, given, ctx)
        elif name != "xs.set_global_mesh":
            fix = _sharded(call, given, ctx)
    message = f"`{name}` shards tensors of `torch_xla`; torchax tensors are sharded with meshes of JAX"
    yield ctx.finding(call, message, fix)


def _mesh(call: ast.Call, given: dict[str, ast.expr], ctx: Context) -> Fix | None:
    imports = ctx.rewrite.imports("import jax")
    if imports is None:
        return None
    if "axis_name" in given:
        name = ctx.text(given["axis_name"])
        new = f"jax.make_mesh((jax.device_count(),), ({name},), {_AUTO})"
    elif {"mesh_shape", "axis_names"} <= given.keys():
        shape, names = given["mesh_shape"], given["axis_names"]
        if not isinstance(names, ast.Tuple | ast.List):
            return None
        times = f" * {len(names.elts)}" if len(names.elts) > 1 else ""
        new = f"jax.make_mesh({ctx.text(shape)}, {ctx.text(names)}, {_AUTO}{times})"
    else:
        return None
    edit = ctx.rewrite.replace(call, new)
    title = "replace the mesh with one of `jax.make_mesh`"
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)


def _sharded(call: ast.Call, given: dict[str, ast.expr], ctx: Context) -> Fix | None:
    mesh, spec, tensor = given.get("mesh"), given.get("partition_spec"), given.get("t")
    if mesh is None or spec is None:
        return None
    axes = _axes(spec, mesh, ctx)
    needed = (_SHARDING, _SPEC, *(("import jax",) if tensor is not None else ()))
    imports = ctx.rewrite.imports(*needed)
    if axes is None or imports is None:
        return None
    new = f"NamedSharding({ctx.text(mesh)}, PartitionSpec({axes}))"
    title = "replace the specification with a `NamedSharding`"
    if tensor is not None:
        statement = ctx.statement(call)
        if not isinstance(statement, ast.Expr) or statement.value is not call:
            return None
        new = f"{ctx.rewrite.operand(tensor)}.apply_jax_(jax.device_put, {new})"
        title = f"replace `xs.mark_sharding` of `{ctx.text(tensor)}` with `jax.device_put`"
    return ctx.rewrite.fix(
        title, ctx.rewrite.replace(call, new), *imports, applicability=Applicability.UNSAFE
    )


def _axes(spec: ast.expr, mesh: ast.expr, ctx: Context) -> str | None:
    """The arguments of the `PartitionSpec`; None for a specification that is not known."""
    if isinstance(spec, ast.Name):
        values = ctx.names.assigned_values(spec)
        spec = values[0] if len(values) == 1 else spec
    if not isinstance(spec, ast.Tuple | ast.List):
        return None
    axes = [_axis(axis, mesh, ctx) for axis in spec.elts]
    return None if None in axes else ", ".join(axis for axis in axes if axis is not None)


def _axis(axis: ast.expr, mesh: ast.expr, ctx: Context) -> str | None:
    match axis:
        case ast.Constant(value=None | str()):
            return ctx.text(axis)
        case ast.Constant(value=int(number)):
            return f"{ctx.rewrite.operand(mesh)}.axis_names[{number}]"
        case ast.Tuple(elts=items) if items:
            inner = [_axis(one, mesh, ctx) for one in items]
            return None if None in inner else f"({', '.join(one for one in inner if one is not None)},)"
        case _:
            return None
