"""`torch.Generator` on the device, and `torch.random.fork_rng()`.

PyTorch has no generator for `"jax"`, and raises.
Importing this module patches `torch.Generator` to create a CPU generator, from which numbers for the device
are drawn, too.
`torch.random.fork_rng()` saves the random state of the device as well; torchax's functions for that raise.
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
    """Replaces `torch.Generator`, and creates instances of it."""


torch.Generator = Generator


def _state(device=None):
    return torchax.default_env().prng_key


def _put_back(state, device=None):
    torchax.default_env().prng_key = state


torch.jax.get_rng_state, torch.jax.set_rng_state = _state, _put_back
