"""Name or argument of torchax or JAX that is out of date.

## What it does

Flags what older code says and the current versions do not take, or do not read:

- names that are gone or deprecated, such as `jax.tree_map`, `jax.experimental.maps`,
  `jax.experimental.shard_map` and `jax.core.Jaxpr`, and imports of `torch_xla2`, the old name of torchax;
- `check_rep` of `jax.shard_map`; `make_splash_mha` without `head_shards` and `q_seq_shards`, `LocalMask`
  without `offset`; `jax.make_mesh` without `axis_types`;
- `env._mesh = mesh`, options of `env.config` that do not exist, such as `use_tpu_splash_attention`, and
  the environment variables `JAX_PLATFORM` and `JAX_USE_GPU`;
- `torchax.compile(function, options)`, whose options only a module heeds, `static_argnums` of a module that
  do not count its parameters and buffers, and the modes `"dynamo"` and `"export"`;
- `hasattr(t, "_elem")`, by which older code tells tensors of torchax;
- the first import of `torch_xla` at a file's top level.

An import that may fail, in a `try` or under a condition, is left alone.

## Why it matters on TPU

Some of it raises: `AttributeError: module 'jax' has no attribute 'tree_map'`,
`ModuleNotFoundError: No module named 'jax.experimental.maps'`,
`TypeError: shard_map() got an unexpected keyword argument 'check_rep'`,
`TypeError: _make_splash_attention() missing 2 required keyword-only arguments: 'head_shards' and
'q_seq_shards'`, `RuntimeError: dynamo mode is not supported yet`.

`static_argnums` of a compiled module count its parameters and its buffers as the arguments 0 and 1:
`ValueError: Non-hashable static arguments are not supported. An error occurred while trying to hash an object
of type <class 'dict'>`.

The rest is silent.
`_elem` is an attribute of whole tensors of torchax, and a slice such as `x[0]` has none.
Nothing reads `env._mesh` or an option that torchax does not know: attention stays the plain one.
JAX ignores `JAX_PLATFORM`.
The mesh of `jax.make_mesh` has explicit axes now, which the operations of torch were not written for:
`F.cross_entropy` of a sharded batch, or `x @ x.T`, raises `ShardingTypeError`, and `shard_map` of what is not
sharded yet `ValueError: in_specs passed to shard_map ... does not match the specs of the input`.
torch_xla is another backend: its tensors and torchax's know nothing of each other, and no release of it is
known to import next to torch 2.13.

Measured on torch 2.13.0, torchax 0.0.14.dev20261026, jax 0.10.2.

## Fix safety

Safe where a name has only moved.
`jax.shard_map` takes all but the function by keyword; the fix names what stood by position, and renames
`check_rep` to `check_vma`.
Unsafe where something else follows from it:

- `torch_xla2` becomes `torchax`: single functions may have moved since;
- `JAX_PLATFORM` becomes `JAX_PLATFORMS`, which is heeded, and a GPU in it the TPU; `JAX_USE_GPU` is removed;
- an option that torchax does not know is removed;
- `jax.make_mesh` is given automatic axes, which is what it made before; leave it where explicit ones are
  meant;
- `jax.experimental.pjit.pjit` becomes `jax.jit`, which takes a `PartitionSpec` only under `jax.set_mesh`;
- `static_argnums` of a module become those of `forward` behind parameters and buffers, two more each;
- `hasattr(t, "_elem")` asks for the device, so that it holds for slices, too: what reads `t._elem` then has
  to read `torchax.interop.jax_view(t)`;
- `torchax.compile(function, options)` becomes `torchax.interop.jax_jit`, which heeds the options.

## Without a fix

For `env._mesh = mesh`: shard the tensors, `t.apply_jax_(jax.device_put, NamedSharding(mesh, spec))`; what
asks the environment for a mesh finds it within `with env.override_property(mesh=mesh):`.
For `use_tpu_splash_attention`: register a kernel, `env.override_op_definition(
torch.nn.functional.scaled_dot_product_attention, function)`.
For torch_xla: `xm.xla_device()` is `"jax"`; `xm.mark_step()`, `xm.optimizer_step(opt)` and
`pl.ParallelLoader` have nothing to do, since torchax runs each operation at once or a whole function under
`torchax.interop.jax_jit`; `xmp.spawn` goes, since one process drives all chips of a host;
`xm.xrt_world_size()` is `jax.device_count()`; `xm.save` is `torch.save` of tensors on the host.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Edit, Finding, Fix, Span
from tpulint.knowledge.outdated_api import (
    APART,
    KEYWORDS,
    NAMES,
    NEEDED,
    OPTIONS,
    OTHER_BACKEND,
    VARIABLES,
    Outdated,
    outdated,
)
from tpulint.model.values.kinds import Instance
from tpulint.rule import Context, Rule, is_name

rule = Rule(
    "TPU901",
    "name or argument of torchax or JAX that is out of date",
    module=__name__,
    fix=Applicability.SAFE,
)

_OLD_NAME = "torch_xla2"
_ENVIRONMENT = Instance("torchax.tensor.Environment")
_LAST = frozenset(name.rpartition(".")[2] for name in NAMES)
_READERS = frozenset({"os.environ.get", "os.environ.setdefault", "os.environ.pop", "os.getenv", "os.putenv"})


# names


def _in_question(node: ast.Import | ast.ImportFrom) -> bool:
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    return any(name.startswith(("jax", "torchax", OTHER_BACKEND)) for name in names)


@rule.on(ast.Import, where=_in_question)
def imported(node: ast.Import, ctx: Context) -> Iterator[Finding]:
    if ctx.is_optional(node):
        return
    for alias in node.names:
        found = outdated(alias.name)
        if found is not None:
            name, what = found
            yield ctx.finding(node, f"`{name}` {what.what}", _renamed(node, alias, ctx))
    if ctx.first_import(OTHER_BACKEND) is node:
        yield _other_backend(node, ctx)


@rule.on(ast.ImportFrom, where=_in_question)
def imported_from(node: ast.ImportFrom, ctx: Context) -> Iterator[Finding]:
    if node.level or node.module is None or ctx.is_optional(node):
        return
    for alias in node.names:
        found = outdated(f"{node.module}.{alias.name}")
        if found is not None:
            name, what = found
            yield ctx.finding(node, f"`{name}` {what.what}", _moved(node, alias, what, ctx))
    if ctx.first_import(OTHER_BACKEND) is node:
        yield _other_backend(node, ctx)


@rule.on(ast.Attribute, named=_LAST)
def name(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    qualified = ctx.qualified_name(node)
    found = outdated(qualified)
    if qualified is None or found is None or ctx.is_caught(node) or ctx.is_optional(ctx.statement(node)):
        return
    outer = ctx.parent(node)
    if isinstance(outer, ast.Attribute) and ctx.qualified_name(outer) in NAMES:
        return
    root: ast.expr = node
    while isinstance(root, ast.Attribute):
        root = root.value
    origin = ctx.qualified_name(root)
    if origin is None or outdated(origin) is not None:
        return  # its import is reported
    fix = None
    what = found[1]
    reachable = what.instead.startswith(f"{origin}.") or not what.instead.startswith(APART)
    if what.instead and reachable:
        edits = _use(node, what, ctx)
        fix = _replaced(node, root, origin, what, edits, ctx) if edits is not None else None
    yield ctx.finding(node, f"`{found[0]}` {what.what}", fix)


def _other_backend(node: ast.stmt, ctx: Context) -> Finding:
    return ctx.finding(node, f"`{OTHER_BACKEND}` is another backend, whose tensors torchax does not know")


def _renamed(node: ast.Import, alias: ast.alias, ctx: Context) -> Fix | None:
    """The old name of torchax in an import, and wherever the file says it."""
    head, _, rest = alias.name.partition(".")
    if head != _OLD_NAME or len(node.names) != 1:
        return None
    name = f"torchax.{rest}" if rest else "torchax"
    edits = [ctx.replace(node, f"import {name}" + (f" as {alias.asname}" if alias.asname else ""))]
    if alias.asname is None:
        if ctx.is_bound("torchax"):
            return None
        edits += [ctx.replace(use, "torchax") for use in ctx.loads(_OLD_NAME)]
    return ctx.fix("use `torchax`", *edits, applicability=Applicability.UNSAFE)


def _moved(node: ast.ImportFrom, alias: ast.alias, what: Outdated, ctx: Context) -> Fix | None:
    """The import from where the name is now, with what its uses need."""
    if not what.instead:
        return None
    edits = [ctx.respelled(node, alias, what.instead)]
    if what.positional or what.keywords:
        for use in ctx.loads(alias.asname or alias.name):
            found = _use(use, what, ctx)
            if found is None:
                return None
            edits += found
    applicability = Applicability.SAFE if what.exact else Applicability.UNSAFE
    return ctx.fix(f"use `{what.instead}`", *edits, applicability=applicability)


def _replaced(
    node: ast.expr, root: ast.expr, origin: str, what: Outdated, edits: list[Edit], ctx: Context
) -> Fix | None:
    imports: tuple[Edit, ...] | None = ()
    new = what.instead
    if what.instead.startswith(f"{origin}."):
        new = f"{ctx.text(root)}{what.instead.removeprefix(origin)}"
    else:
        imports = ctx.imports(f"import {what.instead.partition('.')[0]}")
    if imports is None:
        return None
    applicability = Applicability.SAFE if what.exact else Applicability.UNSAFE
    return ctx.fix(f"use `{new}`", ctx.replace(node, new), *edits, *imports, applicability=applicability)


def _use(node: ast.expr, what: Outdated, ctx: Context) -> list[Edit] | None:
    """Edits for the arguments of a use, a call or a partial one; None for any other use."""
    if not what.positional and not what.keywords:
        return []
    call = ctx.parent(node)
    if not isinstance(call, ast.Call):
        return None
    if call.func is node:
        rest = call.args[1:]
    elif ctx.qualified_name(call.func) == "functools.partial" and call.args[0] is node:
        rest = call.args[2:]
    else:
        return None
    known = {*what.positional, *what.keywords, *what.keywords.values(), "f"}
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    if starred or len(rest) > len(what.positional) or any(word.arg not in known for word in call.keywords):
        return None
    edits = [
        ctx.insert(ctx.span(argument).start, f"{name}=")
        for argument, name in zip(rest, what.positional, strict=False)
    ]
    return edits + [
        _renamed_keyword(word, what.keywords[word.arg], ctx)
        for word in call.keywords
        if word.arg in what.keywords
    ]


# arguments


@rule.on(ast.Call, named=frozenset({"partial", *(name.rpartition(".")[2] for name in KEYWORDS)}))
def keyword(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    partial = bool(call.args) and ctx.qualified_name(call.func) == "functools.partial"
    callee = call.args[0] if partial else call.func
    renamed = KEYWORDS.get(ctx.qualified_name(callee) or "", {})
    for word in call.keywords:
        if word.arg in renamed:
            new = renamed[word.arg]
            fix = ctx.fix(f"use `{new}`", _renamed_keyword(word, new, ctx))
            message = f"`{word.arg}` is no argument of `{ctx.text(callee)}` any more"
            yield ctx.finding(word.value, message, fix)


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in NEEDED))
def needed(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.qualified_name(call.func)
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
        fix = ctx.fix(f"add `{text}`", _appended(call, text, ctx))
        yield ctx.finding(call, f"`{name.rpartition('.')[2]}` needs {words}", fix)


@rule.on(ast.Call, named={"make_mesh"})
def mesh(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.qualified_name(call.func) != "jax.make_mesh" or len(call.args) > 2:
        return
    if any(word.arg in (None, "axis_types") for word in call.keywords):
        return
    names = next((word.value for word in call.keywords if word.arg == "axis_names"), None)
    if len(call.args) == 2:
        names = call.args[1]
    imports = ctx.imports("import jax")
    fix = None
    if isinstance(names, ast.Tuple | ast.List) and names.elts and imports is not None:
        times = f" * {len(names.elts)}" if len(names.elts) > 1 else ""
        text = f"axis_types=(jax.sharding.AxisType.Auto,){times}"
        edit = _appended(call, text, ctx)
        fix = ctx.fix("make automatic axes", edit, *imports, applicability=Applicability.UNSAFE)
    message = "`jax.make_mesh` makes explicit axes in jax 0.10.2, which operations of torch do not serve"
    yield ctx.finding(call, message, fix)


@rule.on(ast.Call, named={"compile"})
def compiled(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.qualified_name(call.func) != "torchax.compile" or not call.args:
        return
    options = call.args[1] if len(call.args) > 1 else next((w.value for w in call.keywords), None)
    if not isinstance(options, ast.Call) or ctx.qualified_name(options.func) != "torchax.CompileOptions":
        return
    given = {word.arg: word.value for word in options.keywords}
    mode = given.get("mode")
    if isinstance(mode, ast.Constant) and mode.value in ("dynamo", "export"):
        yield ctx.finding(mode, f"`torchax.compile` raises for the mode `{ctx.text(mode)}`")
    elif "jax_jit_kwargs" in given and not ctx.is_function(call.args[0]):
        yield from _static_arguments(given["jax_jit_kwargs"], ctx)
    elif "jax_jit_kwargs" in given:
        text = f"{ctx.text(call.args[0])}, kwargs_for_jax_jit={ctx.text(given['jax_jit_kwargs'])}"
        span = Span(ctx.span(call.args[0]).start, ctx.span(call).end - 1)
        base = ctx.text(call.func).removesuffix("compile")
        fix = None
        if base.endswith("."):
            edits = (ctx.replace(call.func, f"{base}interop.jax_jit"), ctx.edit(span, text))
            title = "use `torchax.interop.jax_jit`"
            fix = ctx.fix(title, *edits, applicability=Applicability.UNSAFE)
        yield ctx.finding(options, "`torchax.compile` heeds options for modules only, silently", fix)


def _static_arguments(given: ast.expr, ctx: Context) -> Iterator[Finding]:
    """Arguments of a module's `forward` that are counted from its first one."""
    names = given.keys if isinstance(given, ast.Dict) else []
    for name, value in zip(names, given.values if isinstance(given, ast.Dict) else [], strict=True):
        if not isinstance(name, ast.Constant) or name.value != "static_argnums":
            continue
        numbers = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
        counted = [n.value for n in numbers if isinstance(n, ast.Constant) and isinstance(n.value, int)]
        if len(counted) == len(numbers) and any(number in (0, 1) for number in counted):
            edits = (ctx.replace(n, str(i + 2)) for n, i in zip(numbers, counted, strict=True))
            fix = ctx.fix("count parameters and buffers", *edits, applicability=Applicability.UNSAFE)
            message = "the arguments 0 and 1 of a compiled module are its parameters and its buffers"
            yield ctx.finding(value, message, fix)


@rule.on(ast.Constant, named={"_elem"})
def whole_tensors_only(node: ast.Constant, ctx: Context) -> Iterator[Finding]:
    call = ctx.parent(node)
    if not isinstance(call, ast.Call) or ctx.qualified_name(call.func) != "builtins.hasattr":
        return
    value, imports = call.args[0], ctx.imports("import torch")
    if is_name(value, "self") or ctx.imports("import torchax") != () or imports is None:
        return
    text = ctx.text(value)
    code = f'isinstance({text}, torch.Tensor) and {ctx.operand(value)}.device.type == "jax"'
    outer = ctx.parent(call)
    if isinstance(outer, ast.UnaryOp | ast.BoolOp | ast.Compare):
        code = f"({code})"
    edit = ctx.replace(call, code)
    fix = ctx.fix("ask for the device", edit, *imports, applicability=Applicability.UNSAFE)
    yield ctx.finding(call, "`_elem` is an attribute of whole torchax tensors: a slice has none", fix)


def _renamed_keyword(word: ast.keyword, new: str, ctx: Context) -> Edit:
    assert word.arg is not None
    start = ctx.span(word).start
    return ctx.edit(Span(start, start + len(word.arg)), new)


def _appended(call: ast.Call, text: str, ctx: Context) -> Edit:
    """One more argument at a call's end, behind a comma that may stand there already."""
    last = max((ctx.span(part).end for part in (*call.args, *(w.value for w in call.keywords))), default=0)
    end = ctx.span(call).end - 1
    if last == 0:
        return ctx.insert(end, text)
    return ctx.insert(last, f", {text}")


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
        if ctx.kind(node.value) == _ENVIRONMENT:
            yield ctx.finding(node, "nothing reads `_mesh` of a torchax environment")
        return
    assert isinstance(node.value, ast.Attribute)
    statement = ctx.statement(node)
    if ctx.kind(node.value.value) != _ENVIRONMENT or not isinstance(statement, ast.Assign):
        return
    fix = None
    if len(statement.targets) == 1 and isinstance(statement.value, ast.Constant):
        delete = ctx.delete(statement)
        fix = ctx.fix(f"remove `{node.attr}`", delete, applicability=Applicability.UNSAFE)
    yield ctx.finding(node, f"`{node.attr}` is no option of torchax 0.0.14, and nothing reads it", fix)


@rule.on(ast.Constant, named=VARIABLES)
def variable(node: ast.Constant, ctx: Context) -> Iterator[Finding]:
    outer = ctx.parent(node)
    value: ast.expr | None = None
    statement = ctx.statement(node)
    if isinstance(outer, ast.Subscript) and ctx.qualified_name(outer.value) == "os.environ":
        if isinstance(statement, ast.Assign) and outer in statement.targets:
            value = statement.value
    elif isinstance(outer, ast.Call) and ctx.qualified_name(outer.func) in _READERS and outer.args[0] is node:
        value = outer.args[1] if len(outer.args) > 1 else None
    else:
        return
    name = str(node.value)
    new = VARIABLES[name]
    fix = None
    if new:
        edits = [ctx.replace(node, ctx.quoted(new, node))]
        if isinstance(value, ast.Constant) and value.value in ("gpu", "cuda"):
            edits.append(ctx.replace(value, ctx.quoted("tpu,cpu", value)))
        fix = ctx.fix(f"use `{new}`", *edits, applicability=Applicability.UNSAFE)
    elif isinstance(statement, ast.Assign) and isinstance(value, ast.Constant):
        fix = ctx.fix(f"remove `{name}`", ctx.delete(statement), applicability=Applicability.UNSAFE)
    yield ctx.finding(node, f"JAX does not read the environment variable `{name}`", fix)
