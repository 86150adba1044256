"""The XLA program of a recorded step (`deferred_step.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import jax

from ..jit import compiler_settings
from ..tensor import array_groups, gradient_clipping
from . import vjp_functions


class NotPlainError(TypeError):
    """The function reads numbers or changes attributes, which have to be taken over after the call."""


class NotAgreedError(Exception):
    """Other processes compute something else next."""

    def __init__(self, *, may_share_passes: bool) -> None:
        super().__init__("other processes compute something else next")
        #: Whether all processes compute a backward pass next, with other updates.
        self.may_share_passes = may_share_passes


class Sharing(Protocol):
    """What the processes of a program combine in a step."""

    #: Identifies what is combined.
    key: Any

    def combined(self, gradients: list[Any], buffers: list[Any]) -> tuple[list[Any], list[Any]]:
        """Gradients and buffers within the program of a step."""

    def combined_apart(self, gradients: list[Any], buffers: array_groups.ArrayGroup) -> list[Any]:
        """Gradients after passes that were computed one by one; buffers are replaced."""

    def compiled(self, program: Program) -> Callable[..., Any]:
        """A compiled program, which raises `NotAgreedError` before it computes anything."""


class Alone:
    """A step of one process, or without gradients that the processes combine."""

    key = None

    def combined(self, gradients: list[Any], buffers: list[Any]) -> tuple[list[Any], list[Any]]:
        """Gradients and buffers as they are."""
        return gradients, buffers

    def combined_apart(self, gradients: list[Any], buffers: array_groups.ArrayGroup) -> list[Any]:  # noqa: ARG002
        """Gradients as they are."""
        return gradients

    def compiled(self, program: Program) -> Callable[..., Any]:
        """The program, compiled by JAX."""
        return compiler_settings.Jitted(program, few_calls=0, donate_argnums=(0,))


class Program:
    """Both passes and an update, as a function of arrays for JAX to compile."""

    def __init__(
        self, version: Any, seed: Any, clips: Any, sharing: Sharing, places: Any, compute: Any
    ) -> None:
        self._version, self._seed, self._clips, self._sharing = version, seed, clips, sharing
        self._places, self._compute = places, compute

    def __call__(self, owned: Any, others: Any) -> Any:
        """Compute a step from arrays that are overwritten, and others."""
        values, state = owned
        before, learned, fixed, buffers, key, drawn, numbers, most = others
        learned = list(learned)
        places, taken_from = self._places
        for i, value in zip(places, values, strict=True):
            learned[i] = value
        version = self._version
        floats, pullback, (rest, *read, written, random, left) = version.trace_forward(
            learned, fixed, buffers, key, drawn
        )
        if any(map(jax.tree.leaves, (*read, left))):
            raise NotPlainError
        number, share = self._seed
        seeds = [jax.numpy.full_like(one, share) if i == number else None for i, one in enumerate(floats)]
        gradients = vjp_functions.pull_back(pullback, seeds, floats, version.reached)
        gradients, written = self._sharing.combined(accumulated(gradients, before), written)
        chosen, norms = clipped(gradients, self._clips, most)
        if self._compute is not None:
            taken = [chosen[i] for i in taken_from]
            values, state = self._compute(values, taken, state, numbers, written)
        # Clipped gradients as further results would take as much memory once more.
        return floats, rest, written, random, gradients, norms, values, state


def accumulated(gradients: Any, before: list[Any] | None) -> list[Any]:
    """Gradients, added to those of earlier passes."""
    if before is None:
        return list(gradients)
    return [old + new for old, new in zip(before, gradients, strict=True)]


def clipped(gradients: list[Any], clips: Any, most: Any, norms: Any = None) -> tuple[list[Any], list[Any]]:
    """Clipped gradients, and their norms before they are clipped, which are computed unless given."""
    gradients, most = list(gradients), iter(most)
    given = None if norms is None else iter(norms)
    norms = []
    for places, kind, is_clipped in clips:
        chosen = [gradients[i] for i in places]
        norms.append(gradient_clipping.norm(chosen, kind) if given is None else next(given))
        if is_clipped:
            found = gradient_clipping.clipped(chosen, next(most), norms[-1])
            for i, value in zip(places, found, strict=True):
                gradients[i] = value
    return gradients, norms
