"""Runs programs before and after `fix`, and compares the runs."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from tpulint.proof import comparison, launching, tracing
from tpulint.proof.processes import ProcessResult, threads
from tpulint.proof.project import Project
from tpulint.proof.results import Failure, State, Trace, Verification
from tpulint.proof.session import ON_CPU, Session, read_failure
from tpulint.proof.targets import Target
from tpulint.proof.workers.program import Request
from tpulint.verify.record import Record
from tpulint.verify.record import read as read_record


def verify_program(session: Session, target: Target, project: Project, workspace: Path) -> Verification:
    """Run a program in both copies of its project, and compare."""
    runs = _Runs(session, target, project, workspace)
    with threads(2) as pool:
        originals = [pool.submit(runs.run, "original", shift) for shift in (0.0, comparison.SHIFT)]
        original, shifted = (future.result() for future in originals)
    trace = runs.trace() if session.options.traces else None
    result = Verification(target.name, "program", State.NOT_RUN, trace=trace)
    if original.failure or original.process.error:
        reason = _reason(original.failure) if original.failure else original.process.error
        return replace(result, reason=reason, failure=original.failure)
    if shifted.failure or shifted.process.error:
        reason = f"the original fails when its weights are changed by {comparison.SHIFT:g}"
        return replace(result, reason=reason, failure=shifted.failure)
    fixed = runs.run("fixed", 0.0)
    result = replace(result, steps=original.record.steps, operations=fixed.record.operations)
    if fixed.process.exceeded_limit:
        return replace(result, reason=f"the fixed program: {fixed.process.exceeded_limit}")
    if fixed.failure or fixed.process.error:
        reason = "the fixed program fails" if fixed.failure else f"the fixed program: {fixed.process.error}"
        return replace(result, state=State.DIFFERS, reason=reason, failure=fixed.failure)
    if resolution := max(original.record.resolution, fixed.record.resolution):
        # Autocast has no effect on the CPU: the original computes in 32 bits there.
        shifted = runs.run("original", comparison.SHIFT, resolution)
        result = replace(
            result, notes=(f"modules compute in 16 bits: {_DRIFT_IN_16_BITS.format(resolution)}",)
        )
    return compared(result, original, fixed, shifted)


def _reason(failure: Failure) -> str:
    if failure.type == "UnsupportedVersion":  # of `torchax_compat.enable()`, since CUDA is emulated
        return "the original uses torchax-compat already: verify the program as it was before `fix`"
    return "the original fails on the CPU"


_DRIFT_IN_16_BITS = "for the drift, each weight is changed by a factor of {:.2g}, the resolution of the dtype"


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """The result of one run of a program."""

    process: ProcessResult
    record: Record
    failure: Failure | None


def compared(
    result: Verification, original: ProgramRun, fixed: ProgramRun, shifted: ProgramRun
) -> Verification:
    """The comparison of three runs of a program that ended without an error."""
    if reason := comparison.irreproducibility(original.record, shifted.record):
        return replace(result, reason=reason)
    if not fixed.record.operations:
        return replace(result, reason="nothing was executed on torchax: the fixed program does not use it")
    resolution = max(original.record.resolution, fixed.record.resolution)
    rows = [*comparison.compare_records(original.record, fixed.record, shifted.record, resolution)]
    expected, actual, other = (run.process.stdout for run in (original, fixed, shifted))
    if (lines := comparison.compare_printed(expected, actual, other, resolution)) is not None:
        rows.append(lines)
    state = comparison.overall_state(rows)
    reason = next((f"{row.what}: {row.detail}" for row in rows if row.state is State.DIFFERS), "")
    if state is State.NOT_RUN:
        reason = "there is nothing to compare: no losses, no modules with state, and no printed lines"
    notes = [*result.notes]
    notes += [
        f"a Python implementation of torchvision's compiled {name} was used" for name in fixed.record.stood_in
    ]
    return replace(result, state=state, reason=reason, compared=tuple(rows), notes=tuple(notes))


@dataclass(frozen=True, slots=True)
class _Runs:
    """The runs of one program."""

    session: Session
    target: Target
    project: Project
    workspace: Path

    def run(self, side: str, shift: float, relative_shift: float = 0.0) -> ProgramRun:
        """Run one side of the program from its working folder."""
        where = "reference" if side == "original" else "torchax"
        name = side
        if shift:
            name += f"-shifted-{relative_shift}"
        request, folder = self._request(where, name, shift)
        request = replace(request, relative_shift=relative_shift)
        processes = 2 if side == "original" else 1
        process = self.session.run_worker("program", request, folder, self.project, processes=processes)
        failure = read_failure(Path(request.failure), side)
        if failure is not None and failure.type == "SystemExit" and process.stderr.strip():
            # `argparse` and `sys.exit(TEXT)` print the reason; the exception has only the status.
            failure = replace(failure, message=process.stderr.strip().splitlines()[-1])
        return ProgramRun(process, read_record(Path(request.record)), failure)

    def trace(self) -> Trace:
        """Run the original for one step, and trace the modules that it calls."""
        request, folder = self._request("trace", "trace", 0.0)
        request = replace(request, steps=1)
        process = self.session.run_worker("program", request, folder, self.project, variables=ON_CPU)
        return tracing.read_trace(Path(request.answer), Path(request.failure), process, self.project)

    def _request(self, where: str, name: str, shift: float) -> tuple[Request, Path]:
        """The request for a worker, and its working folder.

        Each run has its own copy of the project: a program may resume from a checkpoint that it finds.
        """
        source = self.project.fixed if where == "torchax" else self.project.original
        root = self.workspace / "runs" / name / source.name
        shutil.copytree(source, root, dirs_exist_ok=True)
        folder = self.project.working_folder(self.target.file).relative_to(self.project.root)
        file = self.target.file.resolve().relative_to(self.project.root)
        request = Request(
            where=where,
            path=os.path.relpath(
                launching.script(root / file, root, self.workspace / f"{name}.py"), root / folder
            ),
            arguments=list(self.target.arguments),
            root=str(root),
            record=str(self.workspace / f"{name}.record"),
            failure=str(self.workspace / f"{name}.failure"),
            steps=self.session.options.steps,
            shift=shift,
            answer=str(self.workspace / f"{name}.answer"),
        )
        return request, root / folder
