"""Image decoding with torchvision.

## What it does

The rule reports `torchvision.io.decode_image`, `read_image`, `decode_png` and `decode_jpeg`.

## Why it matters on TPU

The compiled decoders of torchvision write directly to the memory of a tensor.
Inside the torchax environment, torchax replaces the tensor of the decoder with a torchax tensor:

- Decoding a PNG file ends the process with a segmentation fault.
- Decoding a JPEG or GIF file raises `RuntimeError: The tensor has a non-zero number of elements, but its data
  is not allocated yet`.
- Decoding a WebP file currently works, but is not guaranteed to work.

## Fix safety

The fix decodes the file with Pillow into a `uint8` tensor with the channels as the first dimension, as
torchvision does.

- The fix is safe for the mode RGB.
  For 8-bit PNG, JPEG, WebP and GIF files, the result is exact.
  For 16-bit PNG files, the result is not exact.
- The fix is unsafe for the other modes:
  - In the mode GRAY, the result for a color image may differ by up to 8 levels.
  - In the mode RGB_ALPHA, a GIF file, a palette image or a 1-bit PNG file gives different results.
  - In the mode UNCHANGED, a CMYK or 1-bit image gives different results.

These results were measured against the decoders of torchvision, on 155 combinations of a file and a mode.

## Without a fix

Decode images before the program enters the torchax environment, or inside
`with torchax.disable_temporarily():`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix
from tpulint.rule import Context, Rule

rule = Rule("TPU701", "image decoding with torchvision", module=__name__, fix=Applicability.SAFE)

_DECODERS = frozenset({"decode_image", "read_image", "decode_png", "decode_jpeg"})
_MODES = {"RGB": "RGB", "RGB_ALPHA": "RGBA", "GRAY": "L", "UNCHANGED": None}


@rule.on(ast.Call, named=_DECODERS)
def decode(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = _torchvision_io(ctx.qualified_name(call.func))
    if name in _DECODERS:
        message = f"`torchvision.io.{name}` crashes the process or raises inside the torchax environment"
        yield ctx.finding(call, message, _pillow(call, name, ctx))


def _torchvision_io(qualified: str | None) -> str:
    """The name of a function of `torchvision.io`; an empty string for other functions."""
    if qualified is None or not qualified.startswith("torchvision.io."):
        return ""
    return qualified.rpartition(".")[2]


def _pillow(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    mode = _mode(call, ctx)
    if mode is _UNKNOWN or not call.args or isinstance(call.args[0], ast.Starred) or name == "decode_jpeg":
        return None
    source, from_bytes = _opened(call.args[0], name, ctx)
    wanted = ["import numpy as np", "import torch", "from PIL import Image"]
    if from_bytes is None:
        return None
    if from_bytes:
        wanted.append("import io")
    imports = ctx.imports(*wanted)
    if imports is None:
        return None
    image = f"Image.open({source})"
    if mode == "L":
        code = f'torch.from_numpy(np.array({image}.convert("L"))[None])'
    elif mode is None:
        code = f"torch.from_numpy(np.atleast_3d(np.array({image}))).permute(2, 0, 1)"
    else:
        code = f'torch.from_numpy(np.array({image}.convert("{mode}"))).permute(2, 0, 1)'
    applicability = Applicability.SAFE if mode == "RGB" else Applicability.UNSAFE
    title = f"decode the image with `PIL.Image.open` instead of `{name}`"
    return ctx.fix(title, ctx.replace(call, code), *imports, applicability=applicability)


def _opened(argument: ast.expr, name: str, ctx: Context) -> tuple[str, bool | None]:
    """The argument of `Image.open`, and whether it is a buffer (None if that is not known)."""
    if isinstance(argument, ast.Call) and _torchvision_io(ctx.qualified_name(argument.func)) == "read_file":
        return ctx.text(argument.args[0]) if argument.args else "", False if argument.args else None
    if name == "read_image":
        return ctx.text(argument), False
    if ctx.kind(argument).is_tensor or _read_before(argument, ctx):
        return f"io.BytesIO({ctx.text(argument)}.numpy())", True
    if name == "decode_image":
        path = ctx.is_parameter(argument) or isinstance(argument, ast.Constant | ast.JoinedStr)
        path = path or (
            isinstance(argument, ast.Call) and ctx.qualified_name(argument.func) == "builtins.str"
        )
        return ctx.text(argument), False if path else None
    return "", None


def _read_before(argument: ast.expr, ctx: Context) -> bool:
    """Whether the variable holds the result of `read_file`."""
    found = ctx.module.names.lookup(argument.id, ctx.scope) if isinstance(argument, ast.Name) else None
    values = [binding.value for binding in found[1]] if found is not None else []
    return bool(values) and all(
        isinstance(value, ast.Call) and _torchvision_io(ctx.qualified_name(value.func)) == "read_file"
        for value in values
    )


_UNKNOWN = "?"


def _mode(call: ast.Call, ctx: Context) -> str | None:
    """Pillow's name of the mode; None for the mode of the file, `_UNKNOWN` if it is not a constant."""
    given = call.args[1] if len(call.args) > 1 else None
    for keyword in call.keywords:
        if keyword.arg != "mode":
            return _UNKNOWN
        given = keyword.value
    if given is None:
        return None
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        return _MODES.get(given.value.upper(), _UNKNOWN)
    name = ctx.qualified_name(given) or ""
    head, _, last = name.rpartition(".")
    return _MODES.get(last, _UNKNOWN) if head.endswith("ImageReadMode") else _UNKNOWN
