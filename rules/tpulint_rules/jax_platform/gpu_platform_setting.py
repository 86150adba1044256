"""Setting that makes JAX use a GPU.

## What it does

Reports a GPU platform (`gpu`, `cuda` or `rocm`) as the value of:

- the environment variables `JAX_PLATFORMS` and `JAX_PLATFORM_NAME`, set in `os.environ`, with
  `os.environ.setdefault` or `os.putenv`, or in a dictionary for another process;
- the options `jax_platforms` and `jax_platform_name` of `jax.config.update`.

A list such as `cuda,cpu` is reported as well, but not a list with `tpu`.
If the value is a name, an attribute or a configuration, it is followed through the file.

The rule does not report a platform in a function that also names the platform `tpu`.

## Why it matters on TPU

A TPU host has no GPU, so JAX raises an error when it creates the first array:

- `jax_platform_name = "gpu"`: `RuntimeError: Unknown backend: 'gpu' requested, but no platforms that are
  instances of gpu are present`
- `JAX_PLATFORMS=gpu`: `RuntimeError: Unable to initialize backend 'rocm': Backend 'rocm' is not in the list
  of known backends`
- `JAX_PLATFORMS=cuda`: `AssertionError`, without a message
- `JAX_PLATFORMS=cuda,cpu`: no error, but JAX computes on the CPU, and leaves the TPU idle.

These errors were measured with jax 0.10.2.

## Fix safety

The fix replaces the platform with `""`.
JAX then chooses the platform: a TPU if there is one, otherwise a GPU, otherwise the CPU.
`"tpu"` or `"tpu,cpu"` would raise on a host without a TPU.

The fix is safe if the platform is written as the value.
If the value is computed, the fix replaces it with `"" if value in ("gpu", "cuda") else value`, and is unsafe,
because other code may use the same value.

## Without a fix

If the value is a longer expression, choose the platform `""` for a GPU where the expression is computed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.jax_platform import OPTIONS, VARIABLES, is_gpu
from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Rule

rule = Rule(
    "JAX101",
    "setting that makes JAX use a GPU",
    module=__name__,
    fix=Applicability.SAFE,
)

_MAPPINGS = frozenset({"builtins.dict", "os.environ.update"})
_UPDATES = frozenset({"jax.config.update", "jax.config.config.update"})


@rule.on(ast.Constant, named=VARIABLES)
def variable(node: ast.Constant, ctx: Context) -> Iterator[Finding]:
    found = ctx.program.variable_write(node)
    if found is not None:
        yield from _checked(str(node.value), found.value, ctx)


@rule.on(ast.Call, passing=VARIABLES)
def mapping(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) in _MAPPINGS:
        for word in call.keywords:
            if word.arg in VARIABLES:
                yield from _checked(word.arg, word.value, ctx)


@rule.on(ast.Constant, named=OPTIONS)
def option(node: ast.Constant, ctx: Context) -> Iterator[Finding]:
    outer = ctx.parent(node)
    call = ctx.parent(outer) if isinstance(outer, ast.keyword) else outer
    if not isinstance(call, ast.Call) or ctx.names.qualified(call.func) not in _UPDATES:
        return
    words = {word.arg: word.value for word in call.keywords}
    given = dict(zip(("name", "val"), call.args, strict=False)) | words
    if given.get("name") is node and "val" in given:
        yield from _checked(str(node.value), given["val"], ctx)


def _checked(name: str, value: ast.expr, ctx: Context) -> Iterator[Finding]:
    platforms = sorted(filter(is_gpu, ctx.program.texts(value)), key=str)
    if not platforms or (isinstance(value, ast.Constant) and ctx.names.has_string_nearby("tpu")):
        return
    verb = "is" if isinstance(value, ast.Constant) else "may be"
    message = f"`{name}` {verb} `{platforms[0]}`, which a TPU host does not have, so JAX "
    effect = "uses the CPU" if "cpu" in str(platforms[0]) else "raises"
    yield ctx.finding(value, message + effect, _fix(value, ctx))


def _fix(value: ast.expr, ctx: Context) -> Fix | None:
    edits: list[Change] = []
    applicability = Applicability.SAFE
    for part in _parts(value):
        match part:
            case ast.Constant(value=str() as text):
                if is_gpu(text):
                    edits.append(ctx.rewrite.replace(part, ctx.rewrite.quoted("", part)))
            case ast.Name() | ast.Attribute() | ast.Subscript(slice=ast.Constant()):
                if any(map(is_gpu, ctx.program.texts(part))):
                    text = ctx.text(part)
                    code = f'"" if {text} in ("gpu", "cuda") else {text}'
                    edits.append(ctx.rewrite.replace(part, code if part is value else f"({code})"))
                    applicability = Applicability.UNSAFE
            case _:
                return None
    title = "replace the GPU with an empty string, so that JAX chooses the platform"
    if not edits:
        return None
    return ctx.rewrite.fix(title, *edits, applicability=applicability, serves_cuda=True)


def _parts(value: ast.expr) -> Iterator[ast.expr]:
    """The expressions of which one is the value."""
    match value:
        case ast.IfExp():
            yield from _parts(value.body)
            yield from _parts(value.orelse)
        case ast.BoolOp(op=ast.Or()):
            for part in value.values:
                yield from _parts(part)
        case _:
            yield value
