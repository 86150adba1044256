"""A recorded step as one program of all processes.

Each process passes what its own devices have, and gets what they computed; within the program, the processes
average gradients, and take buffers of process 0.
Processes that cannot run the same program compute the passes of the step one by one
(`ranks/agreements.py`).
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import torch

from .. import ranks
from ..autograd.deferred_step import Plan
from ..autograd.step_program import Alone, NotAgreedError, Program, Sharing
from ..jit import compiler_settings, trace
from ..patches import application
from ..ranks import agreements, between_processes
from ..ranks.agreements import Outcome
from ..tensor import deferral
from ..tensor.array_groups import ArrayGroup
from . import synchronization


class SharedByProcesses:
    """Averages of gradients, and buffers of process 0.

    Args:
        averaged: the numbers of the gradients of a plan that are averaged.
        sent: the numbers of the buffers of a plan that become those of process 0.
    """

    def __init__(self, averaged: tuple[int, ...], sent: tuple[int, ...]) -> None:
        self._averaged, self._sent = averaged, sent
        self.key = (averaged, sent, between_processes.mesh())

    def combined(self, gradients: list[Any], buffers: list[Any]) -> tuple[list[Any], list[Any]]:
        """Gradients and buffers within the program of a step."""
        return (
            _replaced(gradients, self._averaged, between_processes.averaged_within),
            _replaced(buffers, self._sent, between_processes.of_first_within),
        )

    def combined_apart(self, gradients: list[Any], buffers: ArrayGroup) -> list[Any]:
        """Gradients after passes that were computed one by one; buffers are replaced."""
        gradients = _replaced(gradients, self._averaged, between_processes.averaged)
        of_first = functools.partial(between_processes.of_process, 0)
        buffers.keep(_replaced(buffers.get(), self._sent, of_first))
        return gradients

    def compiled(self, program: Program) -> Callable[..., Any]:
        """A program of all processes."""
        return _SharedProgram(program)


def _replaced(values: Sequence[Any], places: Sequence[int], function: Any) -> list[Any]:
    """A list with what a function returns for the values at some places."""
    made = list(values)
    for place, value in zip(places, function([values[place] for place in places]), strict=True):
        made[place] = value
    return made


class _SharedProgram:
    """A step, compiled for all processes."""

    def __init__(self, program: Program) -> None:
        self._compiled = compiler_settings.Jitted(
            between_processes.on_each_process(program), few_calls=0, donate_argnums=(0,)
        )
        self._name: str | None = None
        self._is_new = True

    def __call__(self, owned: Any, others: Any) -> Any:
        """The results on the devices of this process."""
        given = jax.tree.map(between_processes.shared, (owned, others))
        if self._is_new:
            self._name, self._is_new = self._name_of(given), False
        found = agreements.outcome(self._name)
        if found is not Outcome.SAME:
            raise NotAgreedError(may_share_passes=found is Outcome.DIFFERENT)
        made = self._compiled(*between_processes.wait_on_cpu(given))
        return jax.tree.map(between_processes.unshared, between_processes.wait_on_cpu(made))

    def _name_of(self, given: Any) -> str | None:
        """A name of the program that other processes have for the same one; None if it cannot be traced."""
        try:
            text = self._compiled.text(*given)
        except (*trace.NEEDS_VALUE, TypeError):
            return None
        return hashlib.sha256(text.encode()).hexdigest()


def _sharing(plan: Plan) -> Sharing | None:
    """What the processes combine in a backward pass of a plan; None if it cannot be recorded."""
    combined = synchronization.combined(plan.learned) if agreements.are_possible() else None
    if combined is None:
        return None
    averaged, sent = combined
    if not averaged and not sent:
        return Alone()
    of_buffers = _places(plan.buffers.tensors)
    if any(id(one) not in of_buffers for one in sent):
        return None
    of_learned = _places(plan.learned)
    return SharedByProcesses(
        tuple(of_learned[id(one)] for one in averaged), tuple(of_buffers[id(one)] for one in sent)
    )


def _places(tensors: Sequence[torch.Tensor]) -> dict[int, int]:
    return {id(one): place for place, one in enumerate(tensors)}


def _start() -> Callable[[], None]:
    if ranks.processes() == 1:
        return lambda: None
    undone = application.replace([(Plan, "sharing", _sharing)])
    # Other processes may wait for a backward pass that this one has recorded.
    atexit.register(_settle)

    def end() -> None:
        atexit.unregister(_settle)
        application.restore(undone)

    return end


def _settle() -> None:
    if getattr(sys, "last_value", None) is None:
        deferral.settle()


ranks.STARTS.append(_start)
