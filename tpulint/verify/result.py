"""What verify says: one row for each stage of each case, and what the rows add up to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Side = Literal["original", "fixed"]


class State(StrEnum):
    """Whether a stage, or a case, did what it claims."""

    VERIFIED = "verified"
    """It was executed and did."""
    FAILED = "failed"
    """It was executed and did not."""
    NOT_RUN = "not run"
    """It was not executed, for a stated reason."""
    LOCKED = "locked"
    """It was not executed now, since its recorded outcome is up to date."""


@dataclass(frozen=True, slots=True)
class Result:
    """One stage of one case: what was claimed, what happened, and whether the two agree."""

    rule: str
    case: str
    stage: str
    side: Side
    claimed: str
    happened: str
    state: State
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    outcome: str = ""
    """The word for what happened, with the type of an exception: what two runs have in common."""
    environment: str = ""
    """The environment of its own that the case was executed in; "" for the one of torch and torchax."""


def case_state(results: Iterable[Result]) -> State:
    """Failed if any stage failed; not run if nothing was verified beyond the reference; else verified.

    Locked if it was not executed because nothing changed.
    """
    rows = tuple(results)
    if any(row.state is State.FAILED for row in rows):
        return State.FAILED
    # A reference alone says nothing of torchax.
    if any(row.state is State.VERIFIED and row.stage != "reference" for row in rows):
        return State.VERIFIED
    return State.LOCKED if any(row.state is State.LOCKED for row in rows) else State.NOT_RUN


def case_states(results: Iterable[Result]) -> dict[tuple[str, str], State]:
    """The state of each case, under its rule's folder and its own name, in the order of the results."""
    by_case: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        by_case.setdefault((result.rule, result.case), []).append(result)
    return {case: case_state(rows) for case, rows in by_case.items()}


def exit_status(results: Iterable[Result]) -> int:
    """1 if anything failed, 2 if nothing was executed (never green), else 0."""
    return {State.FAILED: 1, State.NOT_RUN: 2, State.VERIFIED: 0, State.LOCKED: 0}[case_state(results)]
