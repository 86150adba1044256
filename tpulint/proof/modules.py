"""Calls modules and functions before and after `fix`, and compares their results."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tpulint.invocation import UsageError
from tpulint.proof import comparison
from tpulint.proof.processes import ProcessResult, threads
from tpulint.proof.project import Project
from tpulint.proof.results import Compared, Failure, State, Verification
from tpulint.proof.session import Session, read_failure
from tpulint.proof.targets import CASE, Target
from tpulint.proof.workers.call_result import CallResult
from tpulint.proof.workers.module import Request


def expand(session: Session, target: Target, project: Project, workspace: Path) -> list[Target]:
    """The target itself, or a target for each function that matches its pattern, such as `verify_*`.

    Raises:
        UsageError: no function matches.
    """
    if not (target.expression.startswith(CASE) and "*" in target.expression):
        return [target]
    names, process, failure = _Calls(session, target, project, workspace).call("cases", 0.0)
    if failure or process.error:
        return [target]  # its verification fails in the same way, and reports it
    if not names:
        raise UsageError(f"{target.file} has no function `{target.expression}`")
    return [replace(target, expression=name) for name in names]


def verify_module(session: Session, target: Target, project: Project, workspace: Path) -> Verification:
    """Call a module or function in both copies of its project, and compare the results."""
    calls = _Calls(session, target, project, workspace)
    with threads(2) as pool:
        futures = [pool.submit(calls.call, "reference", shift) for shift in (0.0, comparison.SHIFT)]
        (original, process, failure), (shifted, _, _) = (future.result() for future in futures)
    result = Verification(target.name, "module", State.NOT_RUN)
    if failure or process.error or original is None or shifted is None:
        reason = "the original fails on the CPU" if failure else process.error
        return replace(result, reason=reason, failure=failure)
    result = replace(result, kind="module" if original.is_module else "function")
    fixed, process, failure = calls.call("torchax", 0.0)
    if process.exceeded_limit:
        return replace(result, reason=f"the fixed code: {process.exceeded_limit}")
    if failure or fixed is None:
        reason = "the fixed code fails" if failure else f"the fixed code: {process.error}"
        return replace(result, state=State.DIFFERS, reason=reason, failure=failure)
    rows = tuple(_compared(original, fixed, shifted))
    state = comparison.overall_state(rows)
    reason = next((f"{row.what}: {row.detail}" for row in rows if row.state is State.DIFFERS), "")
    if state is State.NOT_RUN:
        reason = "there is nothing to compare: no result is a tensor or a number"
    elif not fixed.operations:
        state, reason = State.NOT_RUN, "nothing was executed on torchax"
    return replace(
        result, state=state, reason=reason, compared=rows, operations=fixed.operations, notes=original.notes
    )


def _compared(original: CallResult, fixed: CallResult, shifted: CallResult) -> Iterator[Compared]:
    for what in ("results", "gradients", "buffers"):
        values = [getattr(side, what) for side in (original, fixed, shifted)]
        if what == "results" or any(value.items for value in values[:2]):
            yield comparison.compare_values(what, *values)


@dataclass(frozen=True, slots=True)
class _Calls:
    """The calls of one target."""

    session: Session
    target: Target
    project: Project
    workspace: Path

    def call(self, where: str, shift: float) -> tuple[Any, ProcessResult, Failure | None]:
        """Call the module or function in a separate process.

        Raises:
            UsageError: the target or an input does not exist.
        """
        is_original = where != "torchax"
        locate = self.project.in_original if is_original else self.project.in_fixed
        name = f"{where}{'-shifted' if shift else ''}"
        answer, failure = self.workspace / f"{name}.answer", self.workspace / f"{name}.failure"
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
        process = self.session.run_worker("module", request, folder, self.project, processes=processes)
        found = pickle.loads(answer.read_bytes()) if answer.exists() else None
        return found, process, read_failure(failure, "original" if is_original else "fixed")
