"""Modules and functions: three calls of each, and what is compared of them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tpulint.invocation import UsageError
from tpulint.proof import comparison
from tpulint.proof.processes import Ended, threads
from tpulint.proof.project import Project
from tpulint.proof.results import Compared, Failure, State, Verification
from tpulint.proof.session import Session, read_failure
from tpulint.proof.targets import CASE, Target
from tpulint.proof.workers.answer import Answer
from tpulint.proof.workers.module import Request


def expanded(session: Session, target: Target, project: Project, place: Path) -> list[Target]:
    """The target itself, or one for each function that its pattern, such as `verify_*`, matches.

    Raises:
        UsageError: there is none.
    """
    if not (target.expression.startswith(CASE) and "*" in target.expression):
        return [target]
    names, ended, failure = _Calls(session, target, project, place).call("cases", 0.0)
    if failure or ended.death:
        return [target]  # which fails in the same way, and is reported
    if not names:
        raise UsageError(f"{target.file} has no function `{target.expression}`")
    return [replace(target, expression=name) for name in names]


def verified(session: Session, target: Target, project: Project, place: Path) -> Verification:
    """Call a module or function in both copies of its project, and compare."""
    calls = _Calls(session, target, project, place)
    with threads(2) as pool:
        futures = [pool.submit(calls.call, "reference", shift) for shift in (0.0, comparison.SHIFT)]
        (original, ended, failure), (shifted, _, _) = (future.result() for future in futures)
    result = Verification(target.name, "module", State.NOT_RUN)
    if failure or ended.death or original is None or shifted is None:
        reason = "the original fails on the CPU" if failure else ended.death
        return replace(result, reason=reason, failure=failure)
    result = replace(result, kind="module" if original.is_module else "function")
    fixed, ended, failure = calls.call("torchax", 0.0)
    if ended.stopped:
        return replace(result, reason=f"the fixed code: {ended.stopped}")
    if failure or fixed is None:
        reason = "the fixed code fails" if failure else f"the fixed code: {ended.death}"
        return replace(result, state=State.DIFFERS, reason=reason, failure=failure)
    rows = tuple(_compared(original, fixed, shifted))
    state = comparison.worst(rows)
    reason = next((f"{row.what}: {row.detail}" for row in rows if row.state is State.DIFFERS), "")
    if state is State.NOT_RUN:
        reason = "there is nothing to compare: no result is a tensor or a number"
    elif not fixed.operations:
        state, reason = State.NOT_RUN, "nothing was executed on torchax"
    return replace(
        result, state=state, reason=reason, compared=rows, operations=fixed.operations, notes=original.notes
    )


def _compared(original: Answer, fixed: Answer, shifted: Answer) -> Iterator[Compared]:
    for what in ("results", "gradients", "buffers"):
        due, ours, moved = (getattr(side, what) for side in (original, fixed, shifted))
        if what == "results" or due.items or ours.items:
            yield comparison.values(what, due, ours, moved)


@dataclass(frozen=True, slots=True)
class _Calls:
    session: Session
    target: Target
    project: Project
    place: Path

    def call(self, where: str, shift: float) -> tuple[Any, Ended, Failure | None]:
        """One call of the module, in a process of its own.

        Raises:
            UsageError: the target or an input is not there.
        """
        is_original = where != "torchax"
        locate = self.project.in_original if is_original else self.project.in_fixed
        name = f"{where}{'-shifted' if shift else ''}"
        answer, failure = self.place / f"{name}.answer", self.place / f"{name}.failure"
        for path in (answer, failure):
            path.unlink(missing_ok=True)
        request = Request(
            where=where,
            path=str(locate(self.target.file)),
            expression=self.target.expression,
            inputs=list(self.target.inputs),
            root=str(self.project.original if is_original else self.project.fixed),
            answer=str(answer),
            failure=str(failure),
            shift=shift,
        )
        folder = locate(self.project.working_folder(self.target.file))
        processes = 2 if is_original else 1
        ended = self.session.work("module", request, folder, self.project, processes=processes)
        found = pickle.loads(answer.read_bytes()) if answer.exists() else None
        return found, ended, read_failure(failure, "original" if is_original else "fixed")
