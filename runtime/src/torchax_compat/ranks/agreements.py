"""Agreements between processes about what they compute next.

All processes have to run a program with communication, or none.
Whether a process runs a step as one program depends on what only this process may do, such as printing a loss
before the optimizer's step, or getting a batch of another shape.
So before each such program, each process sends the name of what it would run.
The names go through the service by which the processes found each other, so that no device waits.
"""

from __future__ import annotations

import enum
import itertools
from typing import Any

from .. import ranks
from ..adapters import jax_internals

#: After this many steps in a row that only some processes would have run as one program, none does.
MOST_REFUSALS = 8
#: How long to wait for other processes, which end if one ends: a day.
_MILLISECONDS = 24 * 60 * 60 * 1000

_numbers = itertools.count()
_refusals = 0
_is_last_try = False


class Outcome(enum.Enum):
    """What the processes would run next."""

    SAME = "same"
    #: A step as one program, but not the same one; all of them try once more with its passes alone.
    DIFFERENT = "different"
    #: Some of them would run a step as one program.
    MIXED = "mixed"
    #: None of them would.
    APART = "apart"


def are_possible() -> bool:
    """Whether a step may be one program of all processes."""
    return jax_internals.coordination() is not None and _refusals < MOST_REFUSALS


def outcome(wanted: str | None) -> Outcome:
    """What all processes would run next; all of them call this.

    Args:
        wanted: a name that is the same on all processes for the same program; None for a process that
            computes the passes of a step one by one.
    """
    global _refusals, _is_last_try
    if not are_possible():
        return Outcome.APART
    found = _outcome_of_all(wanted or "")
    if found is Outcome.DIFFERENT and _is_last_try:
        found = Outcome.MIXED
    _is_last_try = found is Outcome.DIFFERENT
    if found is Outcome.SAME:
        _refusals = 0
    elif found is Outcome.MIXED:
        _refusals += 1
    return found


def _outcome_of_all(wanted: str) -> Outcome:
    """The outcome, which process 0 finds out."""
    service, number = jax_internals.coordination(), next(_numbers)
    if ranks.process() > 0:
        service.key_value_set(_key(number, ranks.process()), wanted)
        return Outcome(service.blocking_key_value_get(_key(number, 0), _MILLISECONDS))
    others = [
        service.blocking_key_value_get(_key(number, process), _MILLISECONDS)
        for process in range(1, ranks.processes())
    ]
    found = _compared([wanted, *others])
    service.key_value_set(_key(number, 0), found.value)
    if number:  # all processes have read the outcome before, since they sent another name
        service.key_value_delete(_folder(number - 1))
    return found


def _compared(wanted: list[str]) -> Outcome:
    if not any(wanted):
        return Outcome.APART
    if not all(wanted):
        return Outcome.MIXED
    return Outcome.SAME if len(set(wanted)) == 1 else Outcome.DIFFERENT


def _folder(number: int) -> str:
    return f"torchax_compat/steps/{number}/"


def _key(number: int, process: int) -> str:
    return f"{_folder(number)}{process}"


def _start() -> Any:
    return _forget


def _forget() -> None:
    global _refusals, _is_last_try
    _refusals, _is_last_try = 0, False


ranks.STARTS.append(_start)
