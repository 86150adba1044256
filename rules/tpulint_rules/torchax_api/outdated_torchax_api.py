"""Outdated name or argument of torchax or JAX.

## What it does

The rule reports code that was written for older versions of torchax or JAX, and that the current versions
reject or ignore:

- names that no longer exist or are deprecated, such as `jax.tree_map`, `jax.experimental.maps`,
  `jax.experimental.shard_map` and `jax.core.Jaxpr`;
- imports of `torch_xla2`, the old name of torchax;
- the argument `check_rep` of `jax.shard_map`;
- `make_splash_mha` without `head_shards` and `q_seq_shards`, `LocalMask` without `offset`, and
  `jax.make_mesh` without `axis_types`;
- `env._mesh = mesh`, and options of `env.config` that do not exist, such as `use_tpu_splash_attention`;
- the environment variables `JAX_PLATFORM` and `JAX_USE_GPU`;
- `torchax.compile(function, options)`, because `torchax.compile` uses the options only for modules;
- `static_argnums` of a compiled module, if the numbers do not count the parameters and the buffers, which the
  compiled module receives as its first two arguments;
- the modes `"dynamo"` and `"export"` of `torchax.compile`;
- `hasattr(t, "_elem")`, a check for torchax tensors in older code.

The rule does not report an import inside a `try` statement or under a condition.

## Why it matters on TPU

Some of the reported code raises one of these errors:

- `AttributeError: module 'jax' has no attribute 'tree_map'`
- `ModuleNotFoundError: No module named 'jax.experimental.maps'`
- `TypeError: shard_map() got an unexpected keyword argument 'check_rep'`
- `TypeError: _make_splash_attention() missing 2 required keyword-only arguments: 'head_shards' and
  'q_seq_shards'`
- `RuntimeError: dynamo mode is not supported yet`
- `ValueError: Non-hashable static arguments are not supported. An error occurred while trying to hash an
  object of type <class 'dict'>`: arguments 0 and 1 of a compiled module are its parameters and its buffers,
  and `static_argnums` counts these two arguments, too.

Other reported code has no effect, or raises an error only later in the program:

- Only whole torchax tensors have the attribute `_elem`, so `hasattr(t, "_elem")` is false for slices such as
  `x[0]`.
- torchax does not read `env._mesh`, and ignores options that it does not know.
  With `use_tpu_splash_attention`, for example, attention keeps its default implementation.
- JAX ignores the environment variable `JAX_PLATFORM`.
- In jax 0.10.2, `jax.make_mesh` creates explicit axes (`AxisType.Explicit`), which PyTorch's operations do
  not support.
  With explicit axes, `F.cross_entropy` of a sharded batch, or `x @ x.T`, raises `ShardingTypeError`.
  With explicit axes, `shard_map` of a tensor that is not sharded yet raises
  `ValueError: in_specs passed to shard_map ... does not match the specs of the input`.

These results were measured with torch 2.13.0, torchax 0.0.14.dev20261026 and jax 0.10.2.

## Fix safety

The following fixes are safe:

- If only the module or the name of a function or class has changed, the fix replaces the old name with the
  new name.
- In calls of `jax.shard_map`, the fix passes all arguments except the function as keyword arguments, as
  `jax.shard_map` requires, and renames `check_rep` to `check_vma`.
- The fix adds the arguments that `make_splash_mha` and `LocalMask` require.

The following fixes are unsafe, because the new code does not behave exactly like the old code:

- The fix replaces `jax.ops.index_update(x, i, v)` with `x.at[i].set(v)`, and `index_add`, `index_max`,
  `index_min` and `index_mul` in the same way.
  If `x` is a NumPy array, write `jnp.asarray(x)` instead.
- The fix replaces `torch_xla2` with `torchax`.
  The fixed code raises if `torchax` has a function of `torch_xla2` in another module or under another name.
- The fix replaces `JAX_PLATFORM` with `JAX_PLATFORMS`, which JAX reads.
  If the value of `JAX_PLATFORM` is `"gpu"` or `"cuda"`, the fix replaces the value with `""`: JAX then
  chooses the platform, which is a TPU if there is one.
- The fix removes `JAX_USE_GPU`, and removes options that torchax does not know.
  Other code that reads `JAX_USE_GPU` or such an option then finds no value.
- The fix passes `axis_types` with `AxisType.Auto` to `jax.make_mesh`, because automatic axes were the default
  in older versions of JAX.
  Do not apply this fix if your code uses explicit axes.
- The fix replaces `jax.experimental.pjit.pjit` with `jax.jit`, which accepts a `PartitionSpec` only under
  `jax.set_mesh`.
- The fix adds 2 to each of the `static_argnums` of a module, because the compiled module receives its
  parameters and buffers as the first two arguments.
  If the numbers already count these two arguments, do not apply this fix.
- The fix replaces `hasattr(t, "_elem")` with a check of the device, which is true for slices, too.
  If the code then reads `t._elem`, replace `t._elem` with `torchax.interop.jax_view(t)`.
- The fix replaces `torchax.compile(function, options)` with `torchax.interop.jax_jit`, which uses the
  options.

## Without a fix

- Instead of assigning `env._mesh = mesh`, shard the tensors with `t.apply_jax_(jax.device_put,
  NamedSharding(mesh, spec))`.
  If code reads the mesh from the environment, run this code inside `with env.override_property(mesh=mesh):`.
- Instead of setting `use_tpu_splash_attention`, register a kernel with
  `env.override_op_definition(torch.nn.functional.scaled_dot_product_attention, function)`.
- Remove the modes `"dynamo"` and `"export"`; the default mode is `"jax"`.
- If the message names no replacement for a name, look up the name in the change log of JAX.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.outdated_api import (
    APART,
    INDEXED,
    KEYWORDS,
    NAMES,
    NEEDED,
    OPTIONS,
    VARIABLES,
    Outdated,
    outdated,
)
from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Instance, Rule
from tpulint.rules_api.syntax import is_name

rule = Rule(
    "TPU901",
    "outdated name or argument of torchax or JAX",
    module=__name__,
    fix=Applicability.SAFE,
)

_OLD_NAME = "torch_xla2"
#: The one of the modules that `import jax` does not load whose own import loads what is in it.
_LOADED = "jax.extend."
_ENVIRONMENT = Instance("torchax.tensor.Environment")
_LAST = frozenset(name.rpartition(".")[2] for name in NAMES)
_READERS = frozenset({"os.environ.get", "os.environ.setdefault", "os.environ.pop", "os.getenv", "os.putenv"})


# names


def _in_question(node: ast.Import | ast.ImportFrom) -> bool:
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    return any(name.startswith(("jax", "torchax", _OLD_NAME)) for name in names)


@rule.on(ast.Import, where=_in_question)
def imported(node: ast.Import, ctx: Context) -> Iterator[Finding]:
    if ctx.names.is_optional_import(node):
        return
    for alias in node.names:
        found = outdated(alias.name)
        if found is not None:
            name, what = found
            fix = _renamed(node, alias, ctx)
            yield ctx.finding(node, _message(name, what, fix), fix)


@rule.on(ast.ImportFrom, where=_in_question)
def imported_from(node: ast.ImportFrom, ctx: Context) -> Iterator[Finding]:
    if node.level or node.module is None or ctx.names.is_optional_import(node):
        return
    for alias in node.names:
        found = outdated(f"{node.module}.{alias.name}")
        if found is not None:
            name, what = found
            fix = _moved(node, alias, what, ctx)
            yield ctx.finding(node, _message(name, what, fix), fix)


@rule.on(ast.Attribute, named=_LAST)
def name(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    qualified = ctx.names.qualified(node)
    found = outdated(qualified)
    if (
        qualified is None
        or found is None
        or ctx.devices.is_caught(node)
        or ctx.names.is_optional_import(ctx.statement(node))
    ):
        return
    outer = ctx.parent(node)
    if isinstance(outer, ast.Attribute) and ctx.names.qualified(outer) in NAMES:
        return
    root: ast.expr = node
    while isinstance(root, ast.Attribute):
        root = root.value
    origin = ctx.names.qualified(root)
    if origin is None or outdated(origin) is not None:
        return  # its import is reported
    fix = None
    what = found[1]
    reachable = what.instead.startswith(f"{origin}.") or not what.instead.startswith(APART)
    if what.instead and reachable:
        edits = _use(node, what, ctx)
        fix = _replaced(node, root, origin, what, edits, ctx) if edits is not None else None
    elif qualified in INDEXED:
        fix = _indexed(node, INDEXED[qualified], ctx)
    yield ctx.finding(node, _message(found[0], what, fix), fix)


def _indexed(node: ast.Attribute, method: str, ctx: Context) -> Fix | None:
    """The fix that writes `x.at[i].set(v)` instead of `index_update(x, i, v)`; None for other calls."""
    call = ctx.parent(node)
    match call:
        case ast.Call(func=function, args=[array, index, value], keywords=[]) if function is node:
            is_index = (
                isinstance(index, ast.Subscript) and ctx.names.qualified(index.value) == "jax.ops.index"
            )
            text = ctx.text(index.slice if is_index else index)  # type: ignore[attr-defined]
            code = f"{ctx.rewrite.operand(array)}.at[{text}].{method}({ctx.text(value)})"
            title = f"use `.at[...].{method}(...)`"
            edit = ctx.rewrite.replace(call, code)
            return ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)
    return None


def _message(name: str, what: Outdated, fix: Fix | None) -> str:
    message = f"`{name}` {what.what}"
    return f"{message}; use `{what.instead}` instead" if fix is None and what.instead else message


def _renamed(node: ast.Import, alias: ast.alias, ctx: Context) -> Fix | None:
    """The fix that replaces the former name of torchax in an import and in the file; else None."""
    head, _, rest = alias.name.partition(".")
    if head != _OLD_NAME or len(node.names) != 1:
        return None
    name = f"torchax.{rest}" if rest else "torchax"
    edits = [ctx.rewrite.replace(node, f"import {name}" + (f" as {alias.asname}" if alias.asname else ""))]
    if alias.asname is None:
        if ctx.names.is_bound("torchax"):
            return None
        edits += [ctx.rewrite.replace(use, "torchax") for use in ctx.names.loads(_OLD_NAME)]
    title = f"replace `{alias.name}` with `{name}`"
    return ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)


def _moved(node: ast.ImportFrom, alias: ast.alias, what: Outdated, ctx: Context) -> Fix | None:
    """The fix that imports a name from its new location, with changes of its uses; else None."""
    if not what.instead:
        return None
    edits: list[Change] = [ctx.rewrite.rename_import(node, alias, what.instead)]
    bound = alias.asname or alias.name
    if any(f"{node.module}.{alias.name}.{use}" in NAMES for use in _attributes(bound, ctx)):
        return None  # what the module held has moved to several modules
    if what.positional or what.keywords:
        for use in ctx.names.loads(bound):
            found = _use(use, what, ctx)
            if found is None:
                return None
            edits += found
    applicability = Applicability.SAFE if what.exact else Applicability.UNSAFE
    title = f"replace `{node.module}.{alias.name}` with `{what.instead}`"
    return ctx.rewrite.fix(title, *edits, applicability=applicability)


def _replaced(
    node: ast.expr, root: ast.expr, origin: str, what: Outdated, edits: list[Change], ctx: Context
) -> Fix | None:
    imports: tuple[Change, ...] | None = ()
    new = what.instead
    if what.instead.startswith(f"{origin}."):
        new = f"{ctx.text(root)}{what.instead.removeprefix(origin)}"
        apart = next((one for one in APART if what.instead.startswith(one)), None)
        if apart is not None and not f"{origin}.".startswith(apart):
            parts = what.instead.split(".")
            imports = ctx.rewrite.imports(f"import {'.'.join(parts[: 2 if apart == _LOADED else 3])}")
    else:
        imports = ctx.rewrite.imports(f"import {what.instead.partition('.')[0]}")
    if imports is None:
        return None
    applicability = Applicability.SAFE if what.exact else Applicability.UNSAFE
    title = f"replace `{ctx.text(node)}` with `{new}`"
    return ctx.rewrite.fix(
        title, ctx.rewrite.replace(node, new), *edits, *imports, applicability=applicability
    )


def _attributes(name: str, ctx: Context) -> Iterator[str]:
    """The attributes that the file takes of a name."""
    for use in ctx.names.loads(name):
        outer = ctx.parent(use)
        if isinstance(outer, ast.Attribute):
            yield outer.attr


def _use(node: ast.expr, what: Outdated, ctx: Context) -> list[Change] | None:
    """The edits of the arguments of a call or `partial`; None for other uses."""
    if not what.positional and not what.keywords:
        return []
    call = ctx.parent(node)
    if not isinstance(call, ast.Call):
        return None
    if call.func is node:
        rest = call.args[1:]
    elif ctx.names.qualified(call.func) == "functools.partial" and call.args[0] is node:
        rest = call.args[2:]
    else:
        return None
    known = {*what.positional, *what.keywords, *what.keywords.values(), "f"}
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    if starred or len(rest) > len(what.positional) or any(word.arg not in known for word in call.keywords):
        return None
    edits: list[Change] = [
        ctx.rewrite.name_argument(argument, name)
        for argument, name in zip(rest, what.positional, strict=False)
    ]
    return edits + [
        ctx.rewrite.rename(word, what.keywords[word.arg])
        for word in call.keywords
        if word.arg in what.keywords
    ]


# arguments


@rule.on(ast.Call, named=frozenset({"partial", *(name.rpartition(".")[2] for name in KEYWORDS)}))
def keyword(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    partial = bool(call.args) and ctx.names.qualified(call.func) == "functools.partial"
    callee = call.args[0] if partial else call.func
    renamed = KEYWORDS.get(ctx.names.qualified(callee) or "", {})
    for word in call.keywords:
        if word.arg in renamed:
            new = renamed[word.arg]
            title = f"rename the argument `{word.arg}` to `{new}`"
            fix = ctx.rewrite.fix(title, ctx.rewrite.rename(word, new))
            message = f"`{ctx.text(callee)}` no longer accepts the argument `{word.arg}`"
            yield ctx.finding(word.value, message, fix)


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in NEEDED))
def needed(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in NEEDED or any(word.arg is None for word in call.keywords):
        return
    position, arguments = NEEDED[name]
    if any(isinstance(argument, ast.Starred) for argument in call.args) or 0 <= position < len(call.args):
        return
    given = {word.arg for word in call.keywords}
    missing = {argument: value for argument, value in arguments.items() if argument not in given}
    if missing:
        words = " and ".join(f"`{argument}`" for argument in missing)
        text = ", ".join(f"{argument}={value}" for argument, value in missing.items())
        noun = "argument" if len(missing) == 1 else "arguments"
        fix = ctx.rewrite.fix(f"add the required {noun} `{text}`", _appended(call, text, ctx))
        yield ctx.finding(call, f"`{name.rpartition('.')[2]}` requires the {noun} {words} in jax 0.10.2", fix)


@rule.on(ast.Call, named={"make_mesh"})
def mesh(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "jax.make_mesh" or len(call.args) > 2:
        return
    if any(word.arg in (None, "axis_types") for word in call.keywords):
        return
    names = next((word.value for word in call.keywords if word.arg == "axis_names"), None)
    if len(call.args) == 2:
        names = call.args[1]
    imports = ctx.rewrite.imports("import jax")
    fix = None
    if isinstance(names, ast.Tuple | ast.List) and names.elts and imports is not None:
        times = f" * {len(names.elts)}" if len(names.elts) > 1 else ""
        text = f"axis_types=(jax.sharding.AxisType.Auto,){times}"
        edit = _appended(call, text, ctx)
        title = "add `axis_types` with `AxisType.Auto` for each axis"
        fix = ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
    message = (
        "`jax.make_mesh` creates `AxisType.Explicit` axes in jax 0.10.2, "
        "which torch operations do not support"
    )
    yield ctx.finding(call, message, fix)


@rule.on(ast.Call, named={"compile"})
def compiled(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "torchax.compile" or not call.args:
        return
    options = call.args[1] if len(call.args) > 1 else next((w.value for w in call.keywords), None)
    if not isinstance(options, ast.Call) or ctx.names.qualified(options.func) != "torchax.CompileOptions":
        return
    given = {word.arg: word.value for word in options.keywords}
    mode = given.get("mode")
    if isinstance(mode, ast.Constant) and mode.value in ("dynamo", "export"):
        yield ctx.finding(
            mode, f"`torchax.compile` raises for the mode `{ctx.text(mode)}`; remove the argument `mode`"
        )
    elif "jax_jit_kwargs" in given and not ctx.names.is_function(call.args[0]):
        yield from _static_arguments(given["jax_jit_kwargs"], ctx)
    elif "jax_jit_kwargs" in given:
        arguments = f"{ctx.text(call.args[0])}, kwargs_for_jax_jit={ctx.text(given['jax_jit_kwargs'])}"
        base = ctx.text(call.func).removesuffix("compile")
        fix = None
        if base.endswith("."):
            edits = (ctx.rewrite.replace(call, f"{base}interop.jax_jit({arguments})"),)
            title = "replace `torchax.compile` with `torchax.interop.jax_jit`, which accepts these options"
            fix = ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)
        message = (
            "`torchax.compile` ignores `CompileOptions` for functions (not for modules), without an error"
        )
        yield ctx.finding(options, message, fix)


def _static_arguments(given: ast.expr, ctx: Context) -> Iterator[Finding]:
    """Findings for arguments of a module's `forward` that are counted from its first one."""
    names = given.keys if isinstance(given, ast.Dict) else []
    for name, value in zip(names, given.values if isinstance(given, ast.Dict) else [], strict=True):
        if not isinstance(name, ast.Constant) or name.value != "static_argnums":
            continue
        numbers = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
        counted = [n.value for n in numbers if isinstance(n, ast.Constant) and isinstance(n.value, int)]
        if len(counted) == len(numbers) and any(number in (0, 1) for number in counted):
            edits = (ctx.rewrite.replace(n, str(i + 2)) for n, i in zip(numbers, counted, strict=True))
            title = "add 2 to each index in `static_argnums`, to skip the parameters and buffers"
            fix = ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)
            message = (
                "arguments 0 and 1 of a compiled module are its parameters and its buffers, not its inputs"
            )
            yield ctx.finding(value, message, fix)


@rule.on(ast.Constant, named={"_elem"})
def whole_tensors_only(node: ast.Constant, ctx: Context) -> Iterator[Finding]:
    call = ctx.parent(node)
    if not isinstance(call, ast.Call) or ctx.names.qualified(call.func) != "builtins.hasattr":
        return
    value, imports = call.args[0], ctx.rewrite.imports("import torch")
    if is_name(value, "self") or ctx.rewrite.imports("import torchax") != () or imports is None:
        return
    text = ctx.text(value)
    code = f'isinstance({text}, torch.Tensor) and {ctx.rewrite.operand(value)}.device.type == "jax"'
    outer = ctx.parent(call)
    if isinstance(outer, ast.UnaryOp | ast.BoolOp | ast.Compare):
        code = f"({code})"
    edit = ctx.rewrite.replace(call, code)
    title = 'replace the check for `_elem` with a check for the device type `"jax"`'
    fix = ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
    message = "this check misses slices of torchax tensors, because a slice has no attribute `_elem`"
    yield ctx.finding(call, message, fix)


def _appended(call: ast.Call, text: str, ctx: Context) -> Change:
    """The edit that adds an argument at the end of a call."""
    return ctx.rewrite.add_argument(call, text)


# settings


def _sets(node: ast.Attribute) -> bool:
    if not isinstance(node.ctx, ast.Store):
        return False
    inner = node.value
    option = isinstance(inner, ast.Attribute) and inner.attr == "config" and node.attr not in OPTIONS
    return node.attr == "_mesh" or option


@rule.on(ast.Attribute, where=_sets)
def setting(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    if node.attr == "_mesh":
        if ctx.types.of(node.value) == _ENVIRONMENT:
            yield ctx.finding(
                node,
                "torchax does not read `_mesh` of its environment; shard tensors with `apply_jax_` instead",
            )
        return
    assert isinstance(node.value, ast.Attribute)
    statement = ctx.statement(node)
    if ctx.types.of(node.value.value) != _ENVIRONMENT or not isinstance(statement, ast.Assign):
        return
    fix = None
    if len(statement.targets) == 1 and isinstance(statement.value, ast.Constant):
        delete = ctx.rewrite.delete(statement)
        title = f"remove the assignment to `{node.attr}`"
        fix = ctx.rewrite.fix(title, delete, applicability=Applicability.UNSAFE)
    yield ctx.finding(
        node, f"torchax 0.0.14 has no option `{node.attr}`, so this assignment has no effect", fix
    )


@rule.on(ast.Constant, named=VARIABLES)
def variable(node: ast.Constant, ctx: Context) -> Iterator[Finding]:
    outer = ctx.parent(node)
    value: ast.expr | None = None
    statement = ctx.statement(node)
    if isinstance(outer, ast.Subscript) and ctx.names.qualified(outer.value) == "os.environ":
        if isinstance(statement, ast.Assign) and outer in statement.targets:
            value = statement.value
    elif (
        isinstance(outer, ast.Call) and ctx.names.qualified(outer.func) in _READERS and outer.args[0] is node
    ):
        value = outer.args[1] if len(outer.args) > 1 else None
    else:
        return
    name = str(node.value)
    new = VARIABLES[name]
    fix = None
    if new:
        edits = [ctx.rewrite.replace(node, ctx.rewrite.quoted(new, node))]
        if isinstance(value, ast.Constant) and value.value in ("gpu", "cuda"):
            edits.append(ctx.rewrite.replace(value, ctx.rewrite.quoted("", value)))
        fix = ctx.rewrite.fix(f"replace `{name}` with `{new}`", *edits, applicability=Applicability.UNSAFE)
    elif isinstance(statement, ast.Assign) and isinstance(value, ast.Constant):
        title = f"remove the assignment to `{name}`"
        fix = ctx.rewrite.fix(title, ctx.rewrite.delete(statement), applicability=Applicability.UNSAFE)
    yield ctx.finding(node, f"JAX does not read the environment variable `{name}`", fix)
