"""Tensors without elements, on the device `meta`.

Modules that are built under `torch.device("meta")` should need no memory and no random numbers before their
weights are loaded or initialized, but torchax creates some of their tensors on the device.
`dispatch.py` uses `made()` for such calls of the program.
Below these calls, torch takes torchax tensors for meta tensors as well, which would give wrong groups of
tensors by device.
"""

from __future__ import annotations

from typing import Any

import torch
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import DisableTorchFunction, disable_current_modes, grouped_tensors
from ..patches.declarations import patch

_TORCHAX_TENSORS = (Tensor, View)


def is_meta(device: Any) -> bool:
    """Whether a device, or its name, is `meta`."""
    return device == "meta" or (isinstance(device, torch.device) and device.type == "meta")


def made(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The meta tensor that a torch function creates, or copies a tensor to; None for other calls."""
    moves = func is torch.Tensor.to and len(args) > 1 and is_meta(args[1])
    if not moves and not is_meta(kwargs.get("device")):
        return None
    with disable_current_modes(), DisableTorchFunction():
        if args and isinstance(args[0], _TORCHAX_TENSORS):
            args = _like(args[0], "meta"), *args[1:]
        return func(*args, **kwargs)


def on_host(tensor: torch.Tensor) -> Any:
    """A CPU tensor like a meta tensor."""
    with disable_current_modes(), DisableTorchFunction():
        return _like(tensor, "cpu")


def _like(tensor: torch.Tensor, device: Any) -> Any:
    return torch.empty(tuple(tensor.shape), dtype=tensor.dtype, device=device)


@patch(
    "torch._C:_group_tensors_by_device_and_dtype",
    why="It takes torchax tensors for meta tensors, beside other meta tensors.",
)
def _in_groups(lists: Any, with_indices: bool = False) -> Any:
    """Lists of tensors by device and dtype; weight averaging moves a count to that device."""
    groups = grouped_tensors(lists, with_indices)
    return {(_device(group[0], device), dtype): group for (device, dtype), group in groups.items()}


def _device(lists: Any, device: Any) -> Any:
    tensor = next((one for tensors in lists for one in tensors if isinstance(one, _TORCHAX_TENSORS)), None)
    return device if tensor is None else tensor.device
