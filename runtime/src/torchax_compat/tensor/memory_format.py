"""The memory layout that a torchax tensor would have in PyTorch."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import torch
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import disable_current_modes
from ..jit import dynamic_slices


def named(tensor: torch.Tensor) -> Any:
    """The tensor that writes to this one go to, if it is the `data` of another one."""
    return getattr(tensor, "_of", tensor)


def of(tensor: torch.Tensor) -> Any:
    """A meta tensor with the layout that this tensor would have in torch."""
    if isinstance(tensor, View) and not isinstance(tensor.view_info, dynamic_slices.Span):
        return of(tensor.parent)[tensor.view_info.slices]
    tensor = named(tensor)
    taken = vars(tensor).get("_taken")
    with disable_current_modes():
        if taken is not None:
            try:
                return taken.layout()
            except RuntimeError:  # torch has no such view, and `reshape` copies
                del tensor._taken
        stride = vars(tensor).get("_stride")
        if stride is not None and len(stride) == tensor.ndim:
            return torch.empty_strided(tuple(tensor.shape), stride, dtype=tensor.dtype, device="meta")
        return torch.empty(tuple(tensor.shape), dtype=tensor.dtype, device="meta")


def kept(made: Any, like: Any) -> Any:
    """A result of `torch.empty_like`, with the layout of the tensor that it is like."""
    if type(made) is Tensor and isinstance(like, (Tensor, View)):
        there = of(like)
        if not there.is_contiguous():
            made._stride = torch.empty_like(there).stride()
    return made


@functools.cache
def is_by_element(func: Any) -> bool:
    """Whether an operation is elementwise."""
    return torch.Tag.pointwise in func.tags and not func._schema.is_mutable


def with_layout_of_arguments(made: Any, func: Any, args: Any, kwargs: Any = None) -> Any:
    """The result of an operation, with the layout that torch gives it for such arguments."""
    tensors = [one for one in args if isinstance(one, (Tensor, View))]
    if type(made) is not Tensor or not any(map(_may_have_other_layout, tensors)):
        return made
    there = {id(one): of(one) for one in tensors}
    if any(not one.is_contiguous() for one in there.values()):
        with contextlib.suppress(Exception), disable_current_modes():  # torch decides on the layout
            made_by_torch = func(*(there.get(id(one), one) for one in args), **(kwargs or {}))
            if made_by_torch.shape == made.shape and not made_by_torch.is_contiguous():
                made._stride = made_by_torch.stride()
    return made


def _may_have_other_layout(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, View) or not vars(named(tensor)).keys().isdisjoint(("_taken", "_stride"))
