"""Image decoding with torchvision.

## What it does

The rule reports calls of `torchvision.io.decode_image`, `read_image`, `decode_png`, `decode_jpeg`,
`decode_gif`, `decode_webp`, `decode_avif` and `decode_heic`, and other uses of these functions, such as
`map(decode_image, files)`.

## Why it matters on TPU

The compiled decoders of torchvision write directly to the memory of a tensor.
Inside the torchax environment, torchax replaces the tensor of the decoder with a torchax tensor:

- Decoding a PNG file ends the process with a segmentation fault.
- Decoding a JPEG or GIF file raises `RuntimeError: The tensor has a non-zero number of elements, but its data
  is not allocated yet`.
- Decoding a WebP file currently works, but is not guaranteed to work.

## Fix safety

The fix is safe.

If the mode is RGB, and the code shows that the argument is a path or the bytes of a file, the fix decodes the
file with Pillow into a `uint8` tensor with the channels as the first dimension, as torchvision does.
For 8-bit PNG, JPEG, WebP and GIF files, the result is exact.
For 16-bit PNG files, the result is not exact.

In all other cases, the fix replaces `torchvision.io.decode_image` with `torchax_compat.vision.decode_image`
of the runtime torchax-compat.
The functions of `torchax_compat.vision` leave the torchax environment while torchvision decodes, so all
results are exact.

These results were measured against the decoders of torchvision, on 155 combinations of a file and a mode.

## Without a fix

Decode images before the program enters the torchax environment, or inside
`with torchax.disable_temporarily():`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.runtime import PACKAGE
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule

rule = Rule("TPU701", "image decoding with torchvision", module=__name__, fix=Applicability.SAFE)

_DECODERS = frozenset(
    {
        *("decode_avif", "decode_gif", "decode_heic", "decode_image", "decode_jpeg", "decode_png"),
        *("decode_webp", "read_image"),
    }
)
_VISION = f"{PACKAGE}.vision"


@rule.on(ast.Call, named=_DECODERS)
def decode(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = _torchvision_io(ctx.names.qualified(call.func))
    if name in _DECODERS:
        yield ctx.finding(call, _message(name), _pillow(call, name, ctx) or _outside(call.func, name, ctx))


@rule.on(ast.Attribute, named=_DECODERS)
def taken(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    name = _torchvision_io(ctx.names.qualified(node))
    if name in _DECODERS and not _is_called(node, ctx):
        yield ctx.finding(node, _message(name), _outside(node, name, ctx))


@rule.on(ast.ImportFrom)
def imported(statement: ast.ImportFrom, ctx: Context) -> Iterator[Finding]:
    if statement.level or statement.module not in ("torchvision.io", "torchvision.io.image"):
        return
    for alias in statement.names:
        if alias.name not in _DECODERS:
            continue
        for node in ctx.names.loads(alias.asname or alias.name):
            name = _torchvision_io(ctx.names.qualified(node))
            if name == alias.name and not _is_called(node, ctx):
                yield ctx.finding(node, _message(name), _outside(node, name, ctx))


def _message(name: str) -> str:
    return f"`torchvision.io.{name}` crashes the process or raises inside the torchax environment"


def _is_called(node: ast.expr, ctx: Context) -> bool:
    outer = ctx.parent(node)
    return isinstance(outer, ast.Call) and outer.func is node


def _outside(function: ast.expr, name: str, ctx: Context) -> Fix | None:
    """The fix that uses the function of the same name that leaves the environment."""
    imports = ctx.rewrite.runtime_import()
    if imports is None:
        return None
    edit = ctx.rewrite.replace(function, f"{_VISION}.{name}")
    title = f"decode the image with `{_VISION}.{name}`, which leaves the torchax environment"
    return ctx.rewrite.fix(title, edit, *imports, serves_cuda=True)


def _torchvision_io(qualified: str | None) -> str:
    """The name of a function of `torchvision.io`; an empty string for other functions."""
    if qualified is None or not qualified.startswith("torchvision.io."):
        return ""
    return qualified.rpartition(".")[2]


def _pillow(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    """The fix for the mode RGB, of an argument that is known to be a path or bytes."""
    if not _is_rgb(call, ctx) or not call.args or isinstance(call.args[0], ast.Starred):
        return None
    source, from_bytes = _opened(call.args[0], name, ctx)
    wanted = ["import numpy as np", "import torch", "from PIL import Image"]
    if from_bytes is None:
        return None
    if from_bytes:
        wanted.append("import io")
    imports = ctx.rewrite.imports(*wanted)
    if imports is None:
        return None
    code = f'torch.from_numpy(np.array(Image.open({source}).convert("RGB"))).permute(2, 0, 1)'
    title = f"decode the image with `PIL.Image.open` instead of `{name}`"
    return ctx.rewrite.fix(title, ctx.rewrite.replace(call, code), *imports)


def _opened(argument: ast.expr, name: str, ctx: Context) -> tuple[str, bool | None]:
    """The argument of `Image.open`, and whether it is a buffer (None if that is not known)."""
    if name not in ("decode_image", "decode_png", "read_image"):
        return "", None
    if isinstance(argument, ast.Call) and _torchvision_io(ctx.names.qualified(argument.func)) == "read_file":
        return ctx.text(argument.args[0]) if argument.args else "", False if argument.args else None
    if name == "read_image":
        return ctx.text(argument), False
    if ctx.types.of(argument).is_tensor or _read_before(argument, ctx):
        return f"io.BytesIO({ctx.text(argument)}.numpy())", True
    if name == "decode_image":
        path = isinstance(argument, ast.Constant | ast.JoinedStr)
        path = path or (
            isinstance(argument, ast.Call) and ctx.names.qualified(argument.func) == "builtins.str"
        )
        return ctx.text(argument), False if path else None
    return "", None


def _read_before(argument: ast.expr, ctx: Context) -> bool:
    """Whether the variable holds the result of `read_file`."""
    found = ctx.names.lookup(argument.id) if isinstance(argument, ast.Name) else None
    values = [binding.value for binding in found[1]] if found is not None else []
    return bool(values) and all(
        isinstance(value, ast.Call) and _torchvision_io(ctx.names.qualified(value.func)) == "read_file"
        for value in values
    )


def _is_rgb(call: ast.Call, ctx: Context) -> bool:
    """Whether a call passes the mode RGB, and nothing else but the image."""
    given = call.args[1:] + [word.value for word in call.keywords]
    if len(given) != 1 or any(word.arg != "mode" for word in call.keywords):
        return False
    if isinstance(given[0], ast.Constant) and isinstance(given[0].value, str):
        return given[0].value.upper() == "RGB"
    return (ctx.names.qualified(given[0]) or "").endswith("ImageReadMode.RGB")
