"""Name that TensorFlow or Keras removed or moved.

## What it does

Reports names of former versions that programs for GPUs and TPUs use:

- everything in `tf.contrib`, such as `tf.contrib.tpu.keras_to_tpu_model`, and in `tf.estimator`, such as
  `TPUEstimator`;
- `tf.distribute.experimental.TPUStrategy` and `tf.distribute.experimental.MultiWorkerMirroredStrategy`;
- `tf.keras.mixed_precision.experimental`, `tf.keras.layers.experimental.preprocessing`,
  `tf.keras.layers.CuDNNLSTM`, `tf.keras.layers.CuDNNGRU`, `tf.keras.utils.multi_gpu_model` and
  `tf.keras.optimizers.legacy`;
- the methods `experimental_run_v2` and `experimental_make_numpy_dataset` of strategies;
- the argument `lr` of Keras optimizers, which is `learning_rate` now.

An import inside a `try` statement is not reported.
`tf.contrib` and `tf.estimator` are reported once in a file.

## Why it matters on TPU

The names raise `AttributeError` or `ImportError`, and `lr` raises `ValueError: Argument(s) not recognized`.
The deprecated names only log a warning:
`` `tf.distribute.experimental.TPUStrategy` is deprecated, please use the non-experimental symbol
`tf.distribute.TPUStrategy` instead ``.

This was measured with tensorflow-cpu 2.21.0 and Keras 3.15.1.

## Fix safety

The fix writes the new name.
It is safe, except for the optimizers of `tf.keras.optimizers.legacy` and the layers for cuDNN, whose
successors have other options.

## Without a fix

- Write a Keras model under `tf.distribute.TPUStrategy` instead of `TPUEstimator` and `keras_to_tpu_model`.
- Create a model under `strategy.scope()` instead of `multi_gpu_model`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tensorflow_api import METHODS, NAMES, STRATEGIES
from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Rule

rule = Rule(
    "TF110",
    "name that TensorFlow or Keras removed or moved",
    module=__name__,
    fix=Applicability.SAFE,
)

_LAST = frozenset(name.rpartition(".")[2] for name in NAMES)
#: Modules that are gone as a whole, which are reported once in a file.
_DEAD = frozenset({"tensorflow.contrib", "tensorflow.estimator", "tensorflow.compat.v1.estimator"})
#: Modules of which only the names in the table are known to exist elsewhere.
_MODULES = frozenset({"tensorflow.keras.mixed_precision.experimental"})
_INEXACT = ("legacy", "CuDNN")


@rule.on(ast.Attribute, named=_LAST)
def name(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    qualified = ctx.names.qualified(node)
    outer = ctx.parent(node)
    if qualified not in NAMES or ctx.devices.is_caught(node):
        return
    if isinstance(outer, ast.Attribute) and _entry(ctx.names.qualified(outer)) != qualified:
        return  # the longer name is reported
    root: ast.expr = node
    while isinstance(root, ast.Attribute):
        root = root.value
    origin = ctx.names.qualified(root)
    if origin is None or _entry(origin) is not None:
        return  # its import is reported
    what, new = NAMES[qualified]
    if not new and qualified in _DEAD and not _is_first(node, qualified, ctx):
        return
    fix = None
    is_module = isinstance(outer, ast.Attribute) and qualified in _MODULES
    if new.startswith(f"{origin}.") and not is_module:
        code = f"{ctx.text(root)}{new.removeprefix(origin)}"
        edits: list[Change] = [ctx.rewrite.replace(node, code)]
        if isinstance(outer, ast.Call) and outer.func is node:
            edits += ctx.rewrite.without_keywords(outer, {"loss_scale"})
        fix = _fix(ctx.text(node), code, edits, ctx)
    yield ctx.finding(node, f"`{_short(qualified)}` {what}", fix)


def _is_first(node: ast.Attribute, qualified: str, ctx: Context) -> bool:
    """Whether the node is the first use of the name in the file."""
    found = ctx.names.attributes(node.attr)
    return node is min(
        (one for one, scope in found if ctx.at(scope).names.qualified(one) == qualified),
        key=lambda one: (one.lineno, one.col_offset),
    )


@rule.on(ast.ImportFrom, where=lambda node: (node.module or "").startswith("tensorflow"))
def imported(node: ast.ImportFrom, ctx: Context) -> Iterator[Finding]:
    if node.level or ctx.names.is_optional_import(node):
        return
    for alias in node.names:
        qualified = f"{node.module}.{alias.name}"
        entry = _entry(qualified)
        if entry is None:
            continue
        what, new = NAMES[entry]
        fix = None
        target = f"{new}{qualified.removeprefix(entry)}"
        uses = _renamed_uses(alias.asname or alias.name, qualified, target, ctx)
        if new and uses is not None:
            edit = ctx.rewrite.rename_import(node, alias, target)
            fix = _fix(_short(qualified), _short(target), [edit, *uses], ctx)
        yield ctx.finding(node, f"`{_short(entry)}` {what}", fix)


@rule.on(ast.Import, where=lambda node: any(alias.name.startswith("tensorflow.") for alias in node.names))
def module(node: ast.Import, ctx: Context) -> Iterator[Finding]:
    if ctx.names.is_optional_import(node):
        return
    for alias in node.names:
        entry = _entry(alias.name)
        if entry is not None:
            yield ctx.finding(node, f"`{_short(entry)}` {NAMES[entry][0]}")


@rule.on(ast.Attribute, named=METHODS)
def method(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    values = ctx.names.assigned_values(node.value)
    if not any(isinstance(one, ast.Call) and ctx.names.qualified(one.func) in STRATEGIES for one in values):
        return
    new, fix = METHODS[node.attr], None
    if new:
        fix = ctx.rewrite.fix(
            f"rename `{node.attr}` to `{new}`", ctx.rewrite.rename(node, new), serves_cuda=True
        )
    yield ctx.finding(node, f"strategies no longer have the method `{node.attr}`", fix)


@rule.on(ast.Call, passing={"lr"})
def learning_rate(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func) or ""
    if name.removeprefix("tensorflow.").startswith("keras.optimizers."):
        word = next(word for word in call.keywords if word.arg == "lr")
        edit = ctx.rewrite.rename(word, "learning_rate")
        fix = ctx.rewrite.fix("rename the argument `lr` to `learning_rate`", edit, serves_cuda=True)
        yield ctx.finding(word.value, "optimizers of Keras 3 no longer accept the argument `lr`", fix)


def _entry(qualified: str | None) -> str | None:
    """The longest name of the table that a name is, or lies below."""
    while qualified:
        if qualified in NAMES:
            return qualified
        qualified = qualified.rpartition(".")[0]
    return None


def _short(name: str) -> str:
    """A qualified name as programs write it."""
    return name.replace("tensorflow", "tf", 1)


def _renamed_uses(bound: str, old: str, new: str, ctx: Context) -> list[Change] | None:
    """The edits for names that differ between two modules; None if one of them is in a third module."""
    edits: list[Change] = []
    for use in ctx.names.loads(bound):
        outer = ctx.parent(use)
        if isinstance(outer, ast.Attribute) and f"{old}.{outer.attr}" in NAMES:
            module, _, name = NAMES[f"{old}.{outer.attr}"][1].rpartition(".")
            if module != new:
                return None
            edits.append(ctx.rewrite.rename(outer, name))
    return edits


def _fix(old: str, new: str, edits: list[Change], ctx: Context) -> Fix:
    inexact = any(word in old for word in _INEXACT)
    applicability = Applicability.UNSAFE if inexact else Applicability.SAFE
    title = f"replace `{old}` with `{new}`"
    return ctx.rewrite.fix(title, *edits, applicability=applicability, serves_cuda=True)
