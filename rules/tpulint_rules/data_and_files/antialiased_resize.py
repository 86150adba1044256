"""Antialiased resize of an image.

## What it does

Traced code is code that JAX traces to compile it, such as a model's `forward`.
The rule reports the following calls in traced code, and in files that put tensors on a CUDA or torchax
device:

- `resize` of `torchvision.transforms.functional` and `torchvision.transforms.v2.functional`, with bilinear or
  bicubic interpolation, unless the call passes `antialias=False`;
- `torch.nn.functional.interpolate(..., antialias=True)`.

The rule does not report the resize of a CPU tensor or of a PIL image, because it works.
tpulint recognizes a PIL image if the code around the resize reads an attribute that tensors lack, such as
`image.width`.

## Why it matters on TPU

torchax 0.0.14 implements antialiased resizing with an argument that JAX 0.10 no longer accepts.
The resize raises `TypeError: 'tuple' object is not callable`, whether or not the code is jitted.

## Fix safety

The fix calls `jax.image.resize`, which computes the same result up to rounding.
For images with values from 0 to 1, the largest measured difference was 1.7e-6 (linear) and 1.9e-6 (cubic).

- The fix is safe in traced code if the image is known to be a floating-point tensor.
- The fix is unsafe for `uint8` images.
  The fixed code converts such an image to floating point, resizes it, rounds the result and converts it back
  to `uint8`.
  A value may therefore differ by one level.
- The fix is unsafe if the dtype or the device of the image is not known.
  For an image on the CPU, the fixed code raises. For an image of integers, it returns floating-point values.

## Without a fix

Calls with an `int` size, `max_size`, `scale_factor` or `align_corners=True` have no automatic fix, because
JAX has no exact equivalent.
Pass the size as `[height, width]`, or resize the image on the host, before `.to("jax")`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tensors import TENSOR_ATTRIBUTES
from tpulint.rules_api import UNKNOWN, Applicability, Context, Finding, Fix, Rule, Several, Static, Tensor
from tpulint.rules_api.syntax import arguments_by_name

rule = Rule("TPU702", "antialiased resize of an image", module=__name__, fix=Applicability.SAFE)

_TORCHVISION = frozenset(
    {"torchvision.transforms.functional.resize", "torchvision.transforms.v2.functional.resize"}
)
_TORCHVISION_PARAMETERS = ("img", "size", "interpolation", "max_size", "antialias")
_INTERPOLATE = "torch.nn.functional.interpolate"
_INTERPOLATE_PARAMETERS = (
    "input", "size", "scale_factor", "mode", "align_corners", "recompute_scale_factor", "antialias",
)  # fmt: skip
_METHODS = {"bilinear": "linear", "BILINEAR": "linear", "bicubic": "cubic", "BICUBIC": "cubic"}


@rule.on(ast.Call, named={"resize", "interpolate"})
def resize(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name in _TORCHVISION:
        given = arguments_by_name(call, _TORCHVISION_PARAMETERS)
        method = _method(given.get("interpolation"), "linear", ctx)
        antialiased = not _is_constant(given.get("antialias"), value=False)
    elif name == _INTERPOLATE:
        given = arguments_by_name(call, _INTERPOLATE_PARAMETERS)
        method = _method(given.get("mode"), None, ctx)
        antialiased = _is_constant(given.get("antialias"), value=True)
    else:
        return
    if method is None or not antialiased:
        return
    picture = given.get("img") or given.get("input")
    kind = ctx.types.of(picture) if picture is not None else UNKNOWN
    if isinstance(kind, Tensor) and kind.is_host:
        return
    if ctx.trace.path is None and (
        not ctx.program.places_tensors or (name in _TORCHVISION and _is_other(picture, ctx))
    ):
        return
    message = (
        "this antialiased resize raises `TypeError: 'tuple' object is not callable` on torchax with jax 0.10"
    )
    yield ctx.finding(call, message, _image_resize(call, given, method, ctx))


def _is_other(picture: ast.expr | None, ctx: Context) -> bool:
    """Whether the image is not a tensor, since attributes are read that tensors lack."""
    if not isinstance(picture, ast.Name) or ctx.types.of(picture).is_tensor:
        return False
    return not (ctx.scope.function or ctx.scope).evidence.get(picture.id, set()) <= TENSOR_ATTRIBUTES


def _is_constant(node: ast.expr | None, *, value: object) -> bool:
    """True if the argument is the constant `value`."""
    return isinstance(node, ast.Constant) and node.value is value


def _method(node: ast.expr | None, default: str | None, ctx: Context) -> str | None:
    """Whether the interpolation has antialiasing in JAX; its name there, or None."""
    if node is None:
        return default
    if isinstance(node, ast.Constant):
        return _METHODS.get(str(node.value))
    return _METHODS.get((ctx.names.qualified(node) or "").rpartition(".")[2])


def _image_resize(call: ast.Call, given: dict[str, ast.expr], method: str, ctx: Context) -> Fix | None:
    picture = given.get("img") or given.get("input")
    size = given.get("size")
    others = {"scale_factor", "max_size", "align_corners", "recompute_scale_factor"} & set(given)
    exact = all(
        _is_constant(given[name], value=None) or _is_constant(given[name], value=False) for name in others
    )
    imports = ctx.rewrite.imports("import jax", "import torchax")
    if picture is None or size is None or not exact or imports is None or not _is_pair(size, ctx):
        return None
    if not isinstance(picture, ast.Name) or any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    image = ctx.text(picture)
    kind = ctx.types.of(picture)
    dtype = kind.dtype if isinstance(kind, Tensor) else ""
    sides = f"*{ctx.text(size)}"
    if isinstance(size, ast.List | ast.Tuple):
        sides = ", ".join(ctx.text(side) for side in size.elts)
    shape = f"(*{image}.shape[:-2], {sides})"
    if dtype == "int":
        clamped = ".clamp(0, 255)" if method == "cubic" else ""
        resized = f'torchax.interop.call_jax(jax.image.resize, {image}.float(), {shape}, "{method}")'
        code = f"{resized}.round(){clamped}.to({image}.dtype)"
    else:
        code = f'torchax.interop.call_jax(jax.image.resize, {image}, {shape}, "{method}")'
    safe = dtype == "float" and ctx.trace.path is not None
    applicability = Applicability.SAFE if safe else Applicability.UNSAFE
    title = f"replace `{ctx.text(call.func)}` with `jax.image.resize`"
    return ctx.rewrite.fix(title, ctx.rewrite.replace(call, code), *imports, applicability=applicability)


def _is_pair(size: ast.expr, ctx: Context) -> bool:
    """Whether the size is certainly a height and a width."""
    kind = ctx.types.of(size)
    if isinstance(kind, Several):
        return kind.items is not None and len(kind.items) == 2
    return isinstance(kind, Static) and isinstance(size, ast.Subscript) and isinstance(size.slice, ast.Slice)
