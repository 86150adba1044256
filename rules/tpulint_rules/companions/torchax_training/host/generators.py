"""`torch.Generator` of a device, which programs make where their model is; importing this file brings it.

Torch knows none for `jax`, and raises: it is one of the host, from which the device's numbers are drawn, too.
"""

from __future__ import annotations

import torch

_Generator = torch.Generator


class _Kind(type):
    def __instancecheck__(cls, one):
        return isinstance(one, _Generator)

    def __call__(cls, device="cpu"):
        return _Generator("cpu" if torch.device(device).type == "jax" else device)


class Generator(metaclass=_Kind):
    """What stands for `torch.Generator`, and makes instances of it."""


torch.Generator = Generator
