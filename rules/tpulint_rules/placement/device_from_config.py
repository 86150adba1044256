"""Device name read from a configuration or from the environment.

## What it does

Reports a device name that the program reads at run time and passes to torch:

- an environment variable: `os.environ["DEVICE"]`;
- in a program that reads JSON, YAML or TOML, an item of a mapping: `config["device"]`;
- in a program that reads JSON, YAML or TOML, an attribute that no code of the project sets: `config.device`.

Tensors and modules also have an attribute `device`.
tpulint therefore reports an attribute `device` only in these cases:

- The attribute belongs to an object with a name that is typical of configurations, such as `cfg` or `args`.
- The attribute belongs to a namespace object, such as a `SimpleNamespace`.
- The attribute is passed directly to `torch.device`.

## Why it matters on TPU

The configuration file or the environment variable still says `cuda`, even after all code was changed for TPU.
On a TPU host, `.to(device)` with this value raises `AssertionError: Torch not compiled with CUDA enabled`.

## Fix safety

The fix replaces the value that the program reads with `"jax"` if the value names a CUDA device.
The fix keeps every other device name, such as `cpu`.
The fix is unsafe for two reasons: a CUDA device such as `cuda:1` loses its index, and code that uses the
device name for another purpose, such as a message, then also gets `"jax"`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tpulint.knowledge.configuration import NAMESPACE
from tpulint.knowledge.tracing import is_device_word
from tpulint.rules_api import Applicability, Context, Finding, FunctionNode, Rule, Unknown
from tpulint.rules_api.syntax import dotted, is_name

#: What people call an object that holds what was read.
_CONFIGURATION = re.compile(
    r"_*([a-z0-9]+_)*(args?|opts?|options?|cfg|conf|config|configuration|hparams?|hps?|flags|settings?|params)_*\Z",
    re.IGNORECASE,
)

rule = Rule(
    "TPU107",
    "device name read from a configuration or from the environment",
    module=__name__,
    former=("device-from-text",),
    fix=Applicability.UNSAFE,
)


@rule.on(ast.Subscript, where=lambda node: isinstance(node.ctx, ast.Load) and _is_key(node.slice))
def item(node: ast.Subscript, ctx: Context) -> Iterator[Finding]:
    yield from _read(node, ctx, mapping=True)


@rule.on(ast.Call, named={"get", "getenv"}, where=lambda call: bool(call.args) and _is_key(call.args[0]))
def got(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    yield from _read(call, ctx, mapping=True)


@rule.on(ast.Attribute, named=is_device_word, where=lambda node: isinstance(node.ctx, ast.Load))
def attribute(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(node) is None and _is_of_configuration(node, ctx):
        yield from _read(node, ctx, mapping=False)


def _is_of_configuration(node: ast.Attribute, ctx: Context) -> bool:
    """Whether the attribute belongs to an object that looks like a configuration, such as `args`."""
    path = dotted(node.value) or ""
    if any(_CONFIGURATION.match(part) for part in path.split(".")):
        return True
    outer = ctx.parent(node)
    if isinstance(outer, ast.Call) and ctx.names.qualified(outer.func) == "torch.device":
        return isinstance(ctx.types.of(node.value), Unknown)
    made = ctx.names.assigned_values(node.value) if isinstance(node.value, ast.Name) else []
    return any(NAMESPACE.match(dotted(one.func) or "") for one in made if isinstance(one, ast.Call))


def _is_key(node: ast.expr) -> bool:
    """Whether the node is a string that names a device setting, such as `"device"`."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and is_device_word(node.value)


def _read(node: ast.expr, ctx: Context, *, mapping: bool) -> Iterator[Finding]:
    if not ctx.devices.is_setting(node, mapping=mapping) or _is_unpacked(node, ctx) or _is_guarded(node, ctx):
        return
    if not ctx.devices.becomes_device(node, itself=True):
        return
    text = ctx.text(node)
    code = f'"jax" if "cuda" in str({text}) else {text}'
    outer = ctx.parent(node)
    alone = isinstance(outer, ast.Call | ast.keyword | ast.Assign | ast.AnnAssign | ast.Return | ast.Dict)
    edit = ctx.rewrite.replace(node, code if alone else f"({code})")
    title = f'use the torchax device `"jax"` if `{text}` is a CUDA device'
    fix = ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)
    yield ctx.finding(
        node, f"`{text}` is read at run time and may name a CUDA device, which raises on a TPU host", fix
    )


def _is_unpacked(node: ast.expr, ctx: Context) -> bool:
    """Whether the value comes from the `**kwargs` of the enclosing function."""
    function = ctx.scope.function.node if ctx.scope.function is not None else None
    words = function.args.kwarg if isinstance(function, FunctionNode) else None
    return words is not None and any(is_name(part, words.arg) for part in ast.walk(node))


def _is_guarded(node: ast.expr, ctx: Context) -> bool:
    """Whether a condition around the expression already compares it with `"cuda"`."""
    return any(
        isinstance(outer, ast.IfExp)
        and isinstance(outer.test, ast.Compare | ast.BoolOp)
        and any(isinstance(part, ast.Constant) and part.value == "cuda" for part in ast.walk(outer.test))
        for outer in ctx.ancestors(node)
    )
