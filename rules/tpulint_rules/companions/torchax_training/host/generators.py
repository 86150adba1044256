"""`torch.Generator` of a device, which programs make where their model is; importing this file brings it.

Torch knows none for `jax`, and raises: it is one of the host, from which the device's numbers are drawn, too.
`torch.random.fork_rng()` keeps the random state of the device, too, for which torchax has functions that raise.
"""

from __future__ import annotations

import torch
import torchax

_Generator = torch.Generator


class _Kind(type):
    def __instancecheck__(cls, one):
        return isinstance(one, _Generator)

    def __call__(cls, device="cpu"):
        return _Generator("cpu" if torch.device(device).type == "jax" else device)


class Generator(metaclass=_Kind):
    """What stands for `torch.Generator`, and makes instances of it."""


torch.Generator = Generator


def _state(device=None):
    return torchax.default_env().prng_key


def _put_back(state, device=None):
    torchax.default_env().prng_key = state


torch.jax.get_rng_state, torch.jax.set_rng_state = _state, _put_back
