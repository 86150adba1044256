"""torchvision's functions that decode images, for programs that enter the torchax environment.

The compiled decoders of torchvision write directly to the memory of a tensor.
In the torchax environment, this tensor would be one of torchax, which has no such memory.
The functions of this module therefore leave the environment while they decode.
They take the same arguments as those of `torchvision.io`, and return the same CPU tensors.

torchvision is imported when a function is used for the first time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ..adapters.torch_internals import DisableTorchFunction, disable_current_modes

#: The functions of `torchvision.io` that this module has; versions of torchvision may lack some.
_NAMES = {"decode_avif", "decode_gif", "decode_heic", "decode_image", "decode_jpeg", "decode_png"}
_NAMES |= {"decode_webp", "read_file", "read_image"}


@functools.cache
def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from torchvision import io

    return _decoding_jpeg(io) if name == "decode_jpeg" else _outside(getattr(io, name))


def _outside(function: Callable[..., Any]) -> Any:
    """A function of torchvision that runs outside of the torchax environment."""

    @functools.wraps(function)
    def decoded(*args: Any, **kwargs: Any) -> Any:
        given = [_on_host(value) for value in args]
        options = {name: _on_host(value) for name, value in kwargs.items()}
        with DisableTorchFunction(), disable_current_modes():
            return function(*given, **options)

    return decoded


def _on_host(value: Any) -> Any:
    if isinstance(value, list):
        return [_on_host(one) for one in value]
    return value.cpu() if isinstance(value, torch.Tensor) else value


def _decoding_jpeg(io: Any) -> Any:
    decode = _outside(io.decode_jpeg)

    @functools.wraps(io.decode_jpeg)
    def decode_jpeg(
        input: Any,  # noqa: A002 # torchvision's name
        mode: Any = io.ImageReadMode.UNCHANGED,
        device: Any = "cpu",
        apply_exif_orientation: bool = False,
    ) -> Any:
        """`torchvision.io.decode_jpeg`, which decodes on the host, also for another device."""
        made = decode(input, mode, apply_exif_orientation=apply_exif_orientation)
        return [one.to(device) for one in made] if isinstance(made, list) else made.to(device)

    return decode_jpeg
