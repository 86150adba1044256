"""Tensors without elements, of the device `meta`.

torchax makes some on the device: modules that are built under `torch.device("meta")`, so that their weights need
no memory and no random numbers before they are read or drawn, get both there.
Only what a program calls is told from that: below it, torch takes the tensors of torchax for ones of `meta`, and
so do the groups by device that it makes of lists of tensors, unless they are told here.
"""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torchax.tensor import Tensor
from torchax.view import View

_KINDS = (Tensor, View)
_grouped = torch._C._group_tensors_by_device_and_dtype


def is_meta(device):
    """Whether a device, or the name of one, is the one without elements."""
    return device == "meta" or (isinstance(device, torch.device) and device.type == "meta")


def made(func, args, kwargs):
    """What a function of torch makes there, or copies to there; None of what does neither."""
    moves = func is torch.Tensor.to and len(args) > 1 and is_meta(args[1])
    if not moves and not is_meta(kwargs.get("device")):
        return None
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        if args and isinstance(args[0], _KINDS):
            args = _like(args[0], "meta"), *args[1:]
        return func(*args, **kwargs)


def on_host(tensor):
    """A tensor of the host like one without elements."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        return _like(tensor, "cpu")


def _like(tensor, device):
    return torch.empty(tuple(tensor.shape), dtype=tensor.dtype, device=device)


def _in_groups(lists, with_indices=False):
    """Lists of tensors by their device and dtype; averages of weights move a count to that device."""
    groups = _grouped(lists, with_indices)
    return {(_device(group[0], device), dtype): group for (device, dtype), group in groups.items()}


def _device(lists, device):
    tensor = next((one for tensors in lists for one in tensors if isinstance(one, _KINDS)), None)
    return device if tensor is None else tensor.device


torch._C._group_tensors_by_device_and_dtype = _in_groups
