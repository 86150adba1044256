"""Compiled functions of the ranks of all processes: those with collectives, such as `SyncBatchNorm`.

One program on the devices of all processes computes the forward pass, and one the backward pass.
Each process passes what its own devices have, and gets what they computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from .. import ranks
from ..autograd import vjp_functions
from . import between_processes

_constrain = jax.lax.with_sharding_constraint


class Forward:
    """A forward pass: outputs, pullback, and what else a `Specialization` computes.

    Args:
        function: the forward pass, mapped over all ranks.
        learned: whether each input with gradients has a dimension for the ranks.
        fixed: the same of inputs without gradients.
    """

    is_optimized = False

    def __init__(self, function: Callable[..., Any], learned: Sequence[bool], fixed: Sequence[bool]) -> None:
        self._function, self.learned, self._fixed = function, learned, fixed
        self._compiled = jax.jit(self._run)
        self.specs: list[Any] = []
        self.are_shared: list[bool] = []

    def __call__(self, learned: Any, fixed: Any, *others: Any) -> Any:
        """The forward pass, for arrays of this process."""
        whole_learned = _whole(learned, self.learned)
        self.specs = [one.sharding.spec for one in whole_learned]
        self.are_shared = list(map(between_processes.is_shared, learned))
        given = (whole_learned, _whole(fixed, self._fixed), *jax.tree.map(_same, others))
        outputs, pullback, (rest, *left) = between_processes.wait_on_cpu(
            self._compiled(*between_processes.wait_on_cpu(given))
        )
        return _own(outputs), pullback, (_own(rest), *jax.tree.map(_own_same, left))

    def _run(self, *given: Any) -> Any:
        outputs, pullback, (rest, *left) = self._function(*given)
        left = _constrain(left, between_processes.same_on_all())
        return _of_ranks(outputs), pullback, (_of_ranks(rest), *left)


class Backward:
    """The backward pass of a `Forward`, whose gradients are averaged over the processes later."""

    def __init__(self, forward: Forward) -> None:
        self._forward = forward
        self._compiled = jax.jit(self._run, static_argnums=(2, 3, 4))

    def __call__(self, pullback: Any, gradients: Any, kinds: Any, reached: Any) -> Any:
        """The gradients of the inputs that are reached, from those of the outputs; None means zero."""
        forward = self._forward
        given = [
            None if one is None else between_processes.whole(one, are_of_ranks=True) for one in gradients
        ]
        shapes = tuple(
            jax.ShapeDtypeStruct((ranks.processes() * kind.shape[0], *kind.shape[1:]), kind.dtype)
            for kind in kinds
        )
        between_processes.wait_on_cpu((pullback, given))
        found = self._compiled(pullback, given, shapes, tuple(reached), tuple(forward.specs))
        kinds_of_inputs = zip(forward.learned, forward.are_shared, strict=True)
        wanted = [one for one, is_reached in zip(kinds_of_inputs, reached, strict=True) if is_reached]
        return [
            value if is_shared else between_processes.own(value, are_of_ranks=are_of_ranks)
            for value, (are_of_ranks, is_shared) in zip(
                between_processes.wait_on_cpu(found), wanted, strict=True
            )
        ]

    def _run(self, pullback: Any, gradients: Any, kinds: Any, reached: Any, specs: Any) -> Any:
        found = iter(vjp_functions.pull_back(pullback, gradients, kinds, reached))
        made = []
        for are_of_ranks, spec, is_reached in zip(self._forward.learned, specs, reached, strict=True):
            if not is_reached:
                continue
            if are_of_ranks:
                made.append(_constrain(next(found), between_processes.of_all_ranks()))
            else:  # the sum over all ranks of shares of one process
                share = next(found) / ranks.processes()
                made.append(_constrain(share, between_processes.same_on_all(spec)))
        return made


def _whole(values: Any, are_of_ranks: Sequence[bool]) -> list[Any]:
    return [
        between_processes.whole(value, are_of_ranks=one)
        for value, one in zip(values, are_of_ranks, strict=True)
    ]


def _same(value: Any) -> Any:
    return between_processes.whole(value, are_of_ranks=False)


def _own(values: Any) -> list[Any]:
    return [between_processes.own(value, are_of_ranks=True) for value in values]


def _own_same(value: Any) -> Any:
    return between_processes.own(value, are_of_ranks=False)


def _of_ranks(values: Any) -> Any:
    return [_constrain(value, between_processes.of_all_ranks()) for value in values]
