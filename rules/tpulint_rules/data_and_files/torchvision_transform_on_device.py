"""Transform of torchvision applied to a device tensor.

## What it does

The rule reports functions of `torchvision.transforms.functional` and `torchvision.transforms.v2.functional`
that raise or give wrong results on torchax.
The rule reports a call only if the image is a device tensor, or a tensor in traced code.
Traced code is code that JAX traces to compile it, such as a model's `forward`.
The rule reports these functions:

- `affine`, `perspective`, and `rotate` if `center` is passed;
- `resized_crop` with antialiasing;
- `adjust_sharpness` and `adjust_hue` of `torchvision.transforms.v2` only;
- `to_pil_image`;
- in traced code, `normalize` and `equalize`.

The rule also reports the classes `Normalize`, `Resize`, `ToPILImage`, `RandomAffine`, `RandAugment` and
similar ones.
The rule reports such a class if the file calls an instance of the class with a device tensor, directly or as
part of a `Compose`.

The rule does not report transforms of data sets, which receive images on the host.

## Why it matters on TPU

Some transforms give wrong results, without an error:

- `affine`, `perspective`, and `rotate` with a `center`, fill a part of their grid with
  `base_grid[..., 2].fill_(1)`.
  On torchax, the write with `fill_` has no effect, so the image moves to the wrong position.
- `RandAugment` and `TrivialAugmentWide` give wrong results, because they call `affine`.
- `adjust_sharpness` of v2 gives wrong results, because one of its writes has no effect on torchax.

Other transforms raise:

- The antialiased transforms raise `TypeError: 'tuple' object is not callable`.
- The random transforms of v2 raise `OperatorNotFound: Operator with name aten::round_ has no lowering` or
  `TypeError: tensor_split() got an unexpected keyword argument`.
- `to_pil_image` raises `TypeError: Tensor.numpy() got an unexpected keyword argument 'force'`.
- `normalize` checks whether a standard deviation is zero.
  In jitted code, this check raises `ConcretizationTypeError: Abstract tracer value encountered where concrete
  value is expected`.

These results were measured with torch 2.13.0, torchvision 0.28.0, torchax 0.0.14.dev20261026 and jax 0.10.2.
Flips, crops, pads, `gaussian_blur` and the other color functions give the same results as without torchax.

## Fix safety

- The transforms of torchvision exist in two versions, v1 and v2.
  The fix is safe if it replaces a transform with the transform of the same name in the other version.
  `normalize` and `equalize` of v2 compute the same as those of v1, and JAX can trace them.
  `adjust_sharpness` and `adjust_hue` of v1 compute the same as those of v2, and work on the device.
- The fix is safe for `to_pil_image`: it copies the tensor to the host first.
  For a tensor on a GPU, `to_pil_image` makes this copy itself.
- The fix is unsafe if it runs the transform on the host and moves the result back to the device.
  The program then waits until the device has computed the image.

## Without a fix

- Transform images on the host, before the batch is moved to the device.
- In traced code, replace `affine` with `F.grid_sample` and a grid that you compute; see the page of TPU631
  (`unsupported-operator`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.pictures import CHAINS, CLASSES, FUNCTIONS, Effect, Transform
from tpulint.rules_api import Applicability, Certainty, Context, Finding, Fix, Rule, Tensor

rule = Rule(
    "TPU709",
    "transform of torchvision applied to a device tensor",
    module=__name__,
    former=("device-picture-transform",),
    fix=Applicability.SAFE,
)

_TRANSFORMS = "torchvision.transforms"


def _last(names: dict[str, Transform]) -> frozenset[str]:
    return frozenset(name.rpartition(".")[2] for name in names)


@rule.on(ast.Call, named=_last(FUNCTIONS))
def function(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    what = FUNCTIONS.get(name or "")
    if name is None or what is None or not call.args or not _fails(call, what):
        return
    if _is_on_device(call.args[0], what, ctx):
        fix = _fix(call, what, ctx)
        yield ctx.finding(call, _message(name, what, fix), fix)


@rule.on(ast.Call, named=_last(CLASSES))
def made(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    what = CLASSES.get(name or "")
    if name is None or what is None or not _fails(call, what):
        return
    for use, there in _uses(call, ctx):
        if use.args and _is_on_device(use.args[0], what, there):
            fix = _renamed(call, what, ctx) if what.instead else None
            if what.effect is Effect.ON_HOST and use.func is call:
                fix = _from_host(use.args[0], ctx)
            yield ctx.finding(call, _message(name, what, fix), fix)
            return


def _message(name: str, what: Transform, fix: Fix | None) -> str:
    version = " of `torchvision.transforms.v2`" if ".v2." in name else ""
    message = f"`{name.rpartition('.')[2]}`{version} {what.effect}"
    return message if fix is not None else f"{message}; transform the image on the CPU instead"


def _fails(call: ast.Call, what: Transform) -> bool:
    """Whether the transform fails with these arguments."""
    given = {word.arg: word.value for word in call.keywords}
    if what.effect is Effect.RAISES_ANTIALIASED:
        antialias, interpolation = given.get("antialias"), given.get("interpolation")
        off = isinstance(antialias, ast.Constant) and antialias.value is False
        return not off and not (interpolation is not None and "NEAREST" in ast.unparse(interpolation))
    return not what.needed or any(name in given for name in what.needed)


def _is_on_device(picture: ast.expr, what: Transform, ctx: Context) -> bool:
    """Whether the image is a device tensor for which this transform fails."""
    kind, under_jit = ctx.types.of(picture), what.effect is Effect.RAISES_UNDER_JIT
    path = ctx.trace.path
    if path is not None and (ctx.program.places_tensors or path.certainty is Certainty.JIT or under_jit):
        return kind.is_traced and what.effect is not Effect.ON_HOST
    if under_jit or not ctx.program.places_tensors or ctx.devices.only_with_cuda(picture):
        return False
    return isinstance(kind, Tensor) and not kind.is_host


def _uses(made: ast.Call, ctx: Context) -> Iterator[tuple[ast.Call, Context]]:
    """The calls of a transform, by itself or by its name, or of a chain that contains it."""
    outer = ctx.parent(made)
    while isinstance(outer, ast.List | ast.Tuple):
        outer = ctx.parent(outer)
    if isinstance(outer, ast.Call) and outer.func is made:
        yield outer, ctx
    elif isinstance(outer, ast.Call) and ctx.names.qualified(outer.func) in CHAINS:
        yield from _uses(outer, ctx)
    elif isinstance(outer, ast.Assign) and outer.value is made:
        for target in outer.targets:
            if isinstance(target, ast.Name | ast.Attribute):
                name = target.id if isinstance(target, ast.Name) else target.attr
                for use, there in ctx.calls(name):
                    if ctx.text(use.func) == ctx.text(target):
                        yield use, there


def _fix(call: ast.Call, what: Transform, ctx: Context) -> Fix | None:
    if what.instead:
        return _renamed(call, what, ctx)
    picture = call.args[0]
    if what.effect is Effect.ON_HOST:
        return _from_host(picture, ctx)
    if ctx.trace.path is not None or not isinstance(picture, ast.Name):
        return None
    name = picture.id
    edits = ctx.rewrite.wrap(picture, "", ".cpu()"), ctx.rewrite.wrap(call, "", f".to({name}.device)")
    title = "copy the image to the CPU for this transform, and move the result back to the device"
    return ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)


def _from_host(picture: ast.expr, ctx: Context) -> Fix:
    title = "copy the image to the CPU with `.cpu()`"
    return ctx.rewrite.fix(title, ctx.rewrite.replace(picture, f"{ctx.rewrite.operand(picture)}.cpu()"))


def _renamed(call: ast.Call, what: Transform, ctx: Context) -> Fix | None:
    """The fix that uses the same transform of the other module of torchvision."""
    package, _, rest = what.instead.partition(f"{_TRANSFORMS}.")[2].partition(".")
    imports = ctx.rewrite.imports(f"from {_TRANSFORMS} import {package}")
    if imports is None:
        return None
    name = f"{package}.{rest}"
    title = f"replace `{ctx.text(call.func)}` with `{what.instead}`"
    return ctx.rewrite.fix(title, ctx.rewrite.replace(call.func, name), *imports)
