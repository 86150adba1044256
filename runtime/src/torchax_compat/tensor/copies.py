"""Copies between host and device that share no memory.

In torchax, `x.cpu()` shares its memory with JAX: with `x` itself on JAX's CPU backend, otherwise with the
next `x.cpu()`.
Writes to it change these, too.
`x.to("jax")` reads a large `x` later, when a program may have overwritten it with the next image.
`x.to("jax", copy=True)` returns `x` itself if it is on the device.
On a GPU, both copies are complete when the call returns, and share nothing, and so they do here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import torch

from ..adapters.torch_internals import pytree
from ..adapters.torchax_internals import tensor_to
from ..patches.declarations import TORCHAX, patch, setup
from . import arrays, placements, sharding

_placed = None


def place_by(function: Callable[..., Any] | None) -> None:
    """Pass all arrays that are copied to the device through a function, which places them on devices.

    Args:
        function: gets and returns an array; None to leave them where JAX puts them.
    """
    global _placed
    _placed = function


def are_placed() -> bool:
    """Whether arrays that are copied to the device are placed on all devices."""
    return _placed is not None


def place_by_default(function: Callable[..., Any]) -> None:
    """Pass all arrays that are copied to the device through a function, unless another one places them."""
    if _placed is None:
        place_by(function)


@setup("placement of batches", why="`disable()` ends the effect of `shard_batches()`.")
def _placement() -> Any:
    def end() -> None:
        place_by(None)
        sharding.forget()
        placements.forget()

    return end


@patch(
    "torchax.tensor:Environment.j2t_copy",
    why="`x.cpu()` shares its memory with JAX, so that writes to it change other tensors.",
    upstream=TORCHAX + "tensor.py",
)
def _to_host(_environment: Any, values: Any) -> Any:
    return pytree.tree_map_only(jax.Array, arrays.on_host, values)


@patch(
    "torchax.tensor:Environment.t2j_copy",
    why='`x.to("jax")` reads a large `x` later, when a program may have overwritten it.',
    upstream=TORCHAX + "tensor.py",
)
def _to_device(_environment: Any, tensors: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, to_device, tensors)


def to_device(tensor: torch.Tensor) -> Any:
    """The array of a CPU tensor on the device."""
    made = arrays.of_host(tensor)
    return made if _placed is None else _placed(made)


@patch(
    "torchax.tensor:Environment._torch_Tensor_to",
    why='`x.to("jax", copy=True)` returns `x` itself if it is on the device.',
    upstream=TORCHAX + "tensor.py",
)
def _moved(environment: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """`tensor.to(...)`; its last positional argument says whether to copy."""
    result = tensor_to(environment, args, kwargs)
    plain = [one for one in args[1:] if isinstance(one, bool)]
    is_copied = kwargs.get("copy", plain[1] if len(plain) > 1 else False)
    return result.clone() if is_copied and result is args[0] else result
