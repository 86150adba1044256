"""Local tensors: the tensors that the ranks have in one variable of the program.

The name, and the meaning, are those of `torch.distributed._local_tensor`, PyTorch's simulation of ranks for
tests.
A local tensor has the shape of one rank's tensor.
It consists of `parts`, one tensor for each rank, or of a `whole` with one more dimension in front, which is
sharded over the devices, or of both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import torch
import torchax
from torchax.tensor import Tensor
from torchax.view import View

from .. import ranks
from ..adapters.torch_internals import (
    DisableTorchFunction,
    disable_current_modes,
    make_wrapper_subclass,
    no_dispatch,
    pytree,
)
from ..jit import aliasing
from ..tensor import arrays, deferral, sharding
from . import local_numbers

#: Call a compiled function, and a module, with local tensors; `mapped_functions` adds them.
CALLS: dict[str, Callable[..., Any]] = {}


class DifferentShapesError(Exception):
    """The tensors of the ranks have different shapes, so that no array can hold them all."""


class LocalTensor(torch.Tensor):
    """The tensors of all ranks in one variable."""

    _parts: list[torch.Tensor] | None
    _whole: Any
    #: Calls a torch function; `local_calls` sets it.
    call: ClassVar[Callable[..., Any]]

    @staticmethod
    def __new__(cls, parts: Any = None, whole: Any = None) -> Any:
        """A tensor without elements of its own, with the shape and type of one rank's tensor."""
        like = parts[0] if parts is not None else whole
        if deferral.is_waiting((like,)):  # its shape is known before its elements
            with DisableTorchFunction():
                size, dtype = torch.Tensor.size(like), torch.Tensor.dtype.__get__(like)
        else:
            size, dtype = like.shape, like.dtype
        shape = tuple(size) if parts is not None else tuple(size[1:])
        with no_dispatch(), DisableTorchFunction():
            return make_wrapper_subclass(cls, shape, dtype=dtype, device="meta")

    def __init__(self, parts: Any = None, whole: Any = None) -> None:
        self._parts, self._whole = parts, whole

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The result of a torch function where no mode of torchax is active."""
        return cls.call(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Operations get the parts, not the local tensor."""
        raise TypeError(f"{func} does not know that its arguments differ between the ranks of this process")

    def local_parts(self) -> list[torch.Tensor]:
        """The tensors of the ranks."""
        if self._parts is None:
            self._parts = [self._whole[rank] for rank in range(ranks.count())]
        return self._parts

    def local_whole(self) -> Any:
        """A torchax tensor with one more dimension in front, for the ranks.

        Raises:
            DifferentShapesError: the tensors of the ranks have different shapes.
        """
        if self._whole is None:
            self._whole = _stacked(self.local_parts())
        return self._whole

    def was_written(self) -> None:
        """Note that the parts have changed."""
        self._whole = None

    def has_whole(self) -> bool:
        """Whether there are no parts yet, which may have been changed."""
        return self._parts is None


def _stacked(parts: list[torch.Tensor]) -> Any:
    if len({(tuple(part.shape), part.dtype) for part in parts}) > 1:
        raise DifferentShapesError(", ".join(str(tuple(part.shape)) for part in parts))
    if any(part.requires_grad for part in parts):
        return torch.stack([arrays.on_torchax(part) for part in parts])
    if any(isinstance(part, (Tensor, View)) for part in parts):
        values = [arrays.on_torchax(part).jax() for part in parts]
        return arrays.tensor(jax.device_put(jax.numpy.stack(values), sharding.rows()))
    return on_devices(parts)


def on_devices(parts: list[torch.Tensor]) -> Any:
    """A torchax tensor of CPU tensors, one on each device."""
    with disable_current_modes(), torch.no_grad():
        stacked = torch.stack([part.detach() for part in parts])
    return arrays.tensor(jax.device_put(arrays.numbers_of_host(stacked), sharding.rows()))


def are_among(values: Any) -> bool:
    """Whether there is a local tensor in a tree of values."""
    return ranks.are_on() and any(type(leaf) is LocalTensor for leaf in pytree.tree_leaves(values))


def differs(values: Any) -> bool:
    """Whether a tree of values has tensors or numbers that differ between the ranks."""
    return any(
        type(leaf) is LocalTensor or type(leaf) in local_numbers.LOCAL for leaf in pytree.tree_leaves(values)
    )


def of_rank(values: Any, rank: int) -> Any:
    """A tree of values as one rank has it."""
    return pytree.tree_map(lambda leaf: _leaf_of_rank(leaf, rank), values)


def _leaf_of_rank(leaf: Any, rank: int) -> Any:
    return leaf.local_parts()[rank] if type(leaf) is LocalTensor else local_numbers.of_rank(leaf, rank)


def merged(results: Any) -> Any:
    """The values of all ranks as one value: tensors as local tensors, numbers that differ as local numbers.

    Of other values, such as strings, the one of rank 0 is returned.
    """
    first = results[0]
    if isinstance(first, torch.Tensor):
        return LocalTensor(parts=list(results))
    if isinstance(first, (int, float)):
        return local_numbers.number(results)
    leaves, tree = pytree.tree_flatten(first)
    if len(leaves) == 1 and leaves[0] is first:
        return first
    flat = [leaves, *(pytree.tree_leaves(one) for one in results[1:])]
    return pytree.tree_unflatten([merged(ones) for ones in zip(*flat, strict=True)], tree)


def localize(tensor: torch.Tensor) -> bool:
    """Give each rank a tensor of its own in place of a tensor that is the same on all ranks.

    The object stays the same, since a program has other references to it.

    Returns:
        Whether that is possible: parameters cannot be local.
    """
    if type(tensor) is LocalTensor:
        return True
    source, views = aliasing.root(tensor)
    if type(source) not in (torch.Tensor, Tensor, LocalTensor):
        return False
    if views:
        localize(source)
        parts = [_view(part, views) for part in source.local_parts()]
        source.was_written()
    else:
        with torch.no_grad():
            parts = [tensor.clone() for _ in range(ranks.count())]
    with no_dispatch(), DisableTorchFunction():
        tensor.__class__ = LocalTensor
    vars(tensor).update(_parts=parts, _whole=None)
    return True


def _view(tensor: Any, views: Any) -> Any:
    for view in views:
        tensor = View(tensor, view, torchax.default_env())
    return tensor
