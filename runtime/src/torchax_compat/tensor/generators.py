"""`torch.Generator` on the device, and `torch.random.fork_rng()`.

PyTorch has no generator for `"jax"`, and raises.
Here, `torch.Generator` creates a CPU generator, from which numbers for the device are drawn, too.
`torch.random.fork_rng()` saves the random state of the device as well; torchax's functions for that raise.
"""

from __future__ import annotations

from typing import Any

import torch
import torchax

from ..patches.declarations import TORCH, TORCHAX, patch

_Generator = torch.Generator


class _GeneratorType(type):
    def __instancecheck__(cls, one: Any) -> bool:
        return isinstance(one, _Generator)

    def __call__(cls, device: Any = "cpu") -> Any:
        return _Generator("cpu" if torch.device(device).type == "jax" else device)


@patch(
    "torch:Generator",
    why='PyTorch has no generator for the device `"jax"`.',
    upstream=TORCH + "_C/__init__.pyi.in",
)
class Generator(metaclass=_GeneratorType):
    """Replaces `torch.Generator`, and creates instances of it."""


@patch(
    "torchax.device_module:get_rng_state",
    why="torchax's raises, so that `torch.random.fork_rng()` does.",
    upstream=TORCHAX + "device_module.py",
)
def _state(device: Any = None) -> Any:  # noqa: ARG001 # torch's; all devices have one state
    return torchax.default_env().prng_key


@patch(
    "torchax.device_module:set_rng_state",
    why="torchax's raises, so that `torch.random.fork_rng()` does.",
    upstream=TORCHAX + "device_module.py",
)
def _put_back(state: Any, device: Any = None) -> None:  # noqa: ARG001 # torch's; all devices have one state
    torchax.default_env().prng_key = state
