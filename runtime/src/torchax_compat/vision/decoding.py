"""torchvision's functions that decode images, for programs that enter the torchax environment.

The compiled decoders of torchvision write directly to the memory of a tensor.
In the torchax environment, this tensor would be one of torchax, which has no such memory.
The functions of this module therefore leave the environment while they decode.
They take the same arguments as those of `torchvision.io`, and return the same CPU tensors.

Written by tpulint, https://github.com/tpulint/tpulint.
This file is part of your repository: change it as you need.
"""

import functools

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torchvision import io


def _outside(function):
    """A function of torchvision that runs outside of the torchax environment."""

    @functools.wraps(function)
    def decoded(*args, **kwargs):
        args = [_on_host(value) for value in args]
        kwargs = {name: _on_host(value) for name, value in kwargs.items()}
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            return function(*args, **kwargs)

    return decoded


def _on_host(value):
    if isinstance(value, list):
        return [_on_host(one) for one in value]
    return value.cpu() if isinstance(value, torch.Tensor) else value


for _name in (
    *("decode_avif", "decode_gif", "decode_heic", "decode_image", "decode_png", "decode_webp"),
    *("read_file", "read_image"),
):
    if hasattr(io, _name):  # other versions of torchvision have fewer
        globals()[_name] = _outside(getattr(io, _name))

_decode_jpeg = _outside(io.decode_jpeg)


def decode_jpeg(input, mode=io.ImageReadMode.UNCHANGED, device="cpu", apply_exif_orientation=False):
    """`torchvision.io.decode_jpeg`, which decodes on the host, also for another device."""
    made = _decode_jpeg(input, mode, apply_exif_orientation=apply_exif_orientation)
    if isinstance(made, list):
        return [one.to(device) for one in made]
    return made.to(device)
