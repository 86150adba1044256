"""Calls of a compiled function that differ from the call before only in the values of tensors.

A call searches for the modules that the function can access, and looks at their settings, parameters and
hooks, which takes longer than a step of a small model.
A call of a recorded step (`deferred_step.py`) keeps what it looked at, and the next one only compares.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import jax
import torch
from torchax.tensor import Tensor

from ..adapters.torch_internals import DisableTorchFunction, pytree
from ..jit import contents, trace
from ..tensor import array_groups, arrays

#: After this many calls in a row that were not like the one before, calls are not kept any more.
MOST_MISSES = 8

_requires_grad = operator.attrgetter("requires_grad")


class _Call:
    """A call, and the version of the function that computed it."""

    def __init__(self, version: Any, leaves: Sequence[Any], tree: Any, read: contents.Contents) -> None:
        self.version, self.tree, self._read = version, tree, read
        self._plain = [(i, leaf) for i, leaf in enumerate(leaves) if not isinstance(leaf, torch.Tensor)]
        self._tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self._kinds = [(leaves[i].shape, leaves[i].dtype) for i in self._tensors]
        self._modes = trace.modes()
        self._parameters = list(version.parameters)
        self._ids = set(map(id, self._parameters))
        self._guards = [guard for guard in version.guards if not guard.holds_with(read)]
        read.keep()
        version.plan.find_buffers()

    def given(self, leaves: Sequence[Any], tree: Any) -> tuple[list[torch.Tensor], list[Any]] | None:
        """The inputs of the version for a call, and their arrays; None for one that is not like this one."""
        if tree != self.tree or any(leaves[i] is not plain for i, plain in self._plain):
            return None
        tensors = [leaves[i] for i in self._tensors]
        if [(one.shape, one.dtype) for one in tensors] != self._kinds or not _are_apart(tensors, self._ids):
            return None
        if trace.modes() != self._modes or not self._read.are_same():
            return None
        given = self._parameters + tensors
        with DisableTorchFunction():
            if list(map(_requires_grad, given)) != self.version.with_gradient:
                return None
        if not all(guard.holds() for guard in self._guards):
            return None
        values = [*self.version.plan.inputs.get(), *map(arrays.array_of, tensors)]
        kinds = set(map(type, values))
        return None if any(issubclass(kind, jax.core.Tracer) for kind in kinds) else (given, values)


class RepeatedCalls:
    """The latest call of a function."""

    def __init__(self) -> None:
        self._latest: _Call | None = None
        self._misses = 0

    def version(self, args: Any, kwargs: Any) -> Any:
        """The version for a call that is like the one before, its inputs and their arrays; else None."""
        if self._latest is None:
            return None
        leaves, tree = pytree.tree_flatten((args, kwargs))
        given = self._latest.given(leaves, tree)
        if given is None or not self._latest.version.plan.records():
            self._latest = None
            self._misses += 1
            return None
        self._misses = 0
        return self._latest.version, *given

    def keep(self, version: Any, used: Sequence[Any], arguments: Any, read: contents.Contents) -> None:
        """Keep a call if its arguments were `used` as they are."""
        if self._misses >= MOST_MISSES or not read.are_few or not version.plan.records():
            return
        leaves, tree = pytree.tree_flatten(arguments)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if array_groups.have_same(leaves, used) and _are_apart(tensors, set(map(id, version.parameters))):
            self._latest = _Call(version, leaves, tree, read)


def _are_apart(tensors: Sequence[torch.Tensor], ids: set[int]) -> bool:
    """Whether tensors are on torchax, different ones, and none of the parameters."""
    found = set(map(id, tensors))
    are_apart = len(found) == len(tensors) and found.isdisjoint(ids)
    return are_apart and all(type(one) is Tensor for one in tensors)
