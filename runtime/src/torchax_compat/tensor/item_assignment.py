"""`tensor[index] = value` for torchax tensors and views, with all indices and values of PyTorch.

An assignment goes through three layers: `views.writing()` writes to the source of a view as well,
`_with_any_index()` brings the index into a form that JAX accepts, and `assignment.assigning()` the value.
"""

from __future__ import annotations

from typing import Any

import torch
from torchax.tensor import Tensor
from torchax.view import View

from ..autograd import no_grad
from ..jit import concrete_values, deferred_scalars, dynamic_slices
from ..patches.declarations import TORCHAX, patch
from . import assignment, indices, masks, views, wide_integers


def _with_any_index(plain: Any) -> Any:
    """Item assignment that accepts the indices that torch accepts; `plain` accepts those of JAX."""

    def assigned(tensor: torch.Tensor, key: Any, value: Any) -> None:
        if concrete_values.is_active():
            key = dynamic_slices.positions(tensor.shape, key, concrete_values.length)
            value = deferred_scalars.for_computation(value)
        key = indices.plain(key)
        if isinstance(value, torch.Tensor) and value.ndim:
            key = masks.places(key)
        elif wide_integers.is_wide(value) and tensor.is_floating_point():
            value = float(value)
        with no_grad.hidden_writes(tensor):
            staged = indices.stages(key)
            if staged is not None:
                tensor[staged[0]][staged[1]] = value
            elif isinstance(tensor, View) and not indices.is_basic(key):
                part = tensor.torch()  # torchax accepts masks and tensors only as indices of whole tensors
                part[key] = value
                tensor.update(part)
            else:
                plain(tensor, key, value)

    return assigned


def _writing_to_source(plain: Any) -> Any:
    """Item assignment that writes to the source of a view, too."""

    def assigned(tensor: torch.Tensor, key: Any, value: Any) -> None:
        with views.writing(tensor):
            plain(tensor, key, value)

    return assigned


patch(
    "torchax.tensor:Tensor.__setitem__",
    why="torchax rejects lists, ranges, CPU tensors and mixed indices, and loses writes to a view's source.",
    upstream=TORCHAX + "tensor.py",
)(_writing_to_source(_with_any_index(assignment.assigning(Tensor.__setitem__))))
patch(
    "torchax.view:View.__setitem__",
    why="torchax rejects lists, ranges, masks, CPU tensors and mixed indices.",
    upstream=TORCHAX + "view.py",
)(_with_any_index(assignment.assigning(View.__setitem__)))
