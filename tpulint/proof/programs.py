"""Programs: three runs of each, and what is compared of them."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from tpulint.proof import comparison, launching, tracing
from tpulint.proof.processes import Ended, threads
from tpulint.proof.project import Project
from tpulint.proof.results import Failure, State, Trace, Verification
from tpulint.proof.session import ON_CPU, Session, read_failure
from tpulint.proof.targets import Target
from tpulint.proof.workers.program import Request
from tpulint.verify.record import Record, read


def verified(session: Session, target: Target, project: Project, place: Path) -> Verification:
    """Run a program in both copies of its project, and compare."""
    runs = _Programs(session, target, project, place)
    with threads(2) as pool:
        originals = [pool.submit(runs.run, "original", shift) for shift in (0.0, comparison.SHIFT)]
        original, shifted = (future.result() for future in originals)
    trace = runs.trace() if session.options.traces else None
    result = Verification(target.name, "program", State.NOT_RUN, trace=trace)
    if original.failure or original.ended.death:
        reason = _reason(original.failure) if original.failure else original.ended.death
        return replace(result, reason=reason, failure=original.failure)
    if shifted.failure or shifted.ended.death:
        reason = f"the original fails when its weights are changed by {comparison.SHIFT:g}"
        return replace(result, reason=reason, failure=shifted.failure)
    fixed = runs.run("fixed", 0.0)
    result = replace(result, steps=original.record.steps, operations=fixed.record.operations)
    if fixed.ended.stopped:
        return replace(result, reason=f"the fixed program: {fixed.ended.stopped}")
    if fixed.failure or fixed.ended.death:
        reason = "the fixed program fails" if fixed.failure else f"the fixed program: {fixed.ended.death}"
        return replace(result, state=State.DIFFERS, reason=reason, failure=fixed.failure)
    if resolution := max(original.record.resolution, fixed.record.resolution):
        # Autocast has no effect on the CPU: the original computes in 32 bits there.
        shifted = runs.run("original", comparison.SHIFT, resolution)
        result = replace(result, notes=(f"modules compute in 16 bits: {_SHIFTED.format(resolution)}",))
    return compared(result, original, fixed, shifted)


def _reason(failure: Failure) -> str:
    if failure.type == "UnsupportedVersion":  # of `torchax_compat.enable()`, since CUDA is emulated
        return "the original uses torchax-compat already: verify the program as it was before `fix`"
    return "the original fails on the CPU"


_SHIFTED = "the drift is that of weights changed by {:.2g} of themselves, which these bits resolve"


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """One run of a program."""

    ended: Ended
    record: Record
    failure: Failure | None


def compared(
    result: Verification, original: ProgramRun, fixed: ProgramRun, shifted: ProgramRun
) -> Verification:
    """The result of a program whose three runs came to their end."""
    if reason := comparison.repeats_itself(original.record, shifted.record):
        return replace(result, reason=reason)
    if not fixed.record.operations:
        return replace(
            result, reason="nothing was executed on torchax: `fix` does not move this program to it"
        )
    resolution = max(original.record.resolution, fixed.record.resolution)
    rows = [*comparison.records(original.record, fixed.record, shifted.record, resolution)]
    due, ours, moved = (run.ended.printed for run in (original, fixed, shifted))
    if (lines := comparison.printed(due, ours, moved, resolution)) is not None:
        rows.append(lines)
    state = comparison.worst(rows)
    reason = next((f"{row.what}: {row.detail}" for row in rows if row.state is State.DIFFERS), "")
    if state is State.NOT_RUN:
        reason = "there is nothing to compare: no losses, no modules with state, and no printed lines"
    notes = [*result.notes]
    notes += [f"torchvision's compiled {name} ran as a stand-in" for name in fixed.record.stood_in]
    return replace(result, state=state, reason=reason, compared=tuple(rows), notes=tuple(notes))


@dataclass(frozen=True, slots=True)
class _Programs:
    session: Session
    target: Target
    project: Project
    place: Path

    def run(self, side: str, shift: float, relative_shift: float = 0.0) -> ProgramRun:
        """Run one side of the program from its working folder."""
        where = "reference" if side == "original" else "torchax"
        name = side
        if shift:
            name += f"-shifted-{relative_shift}"
        request, folder = self._request(where, name, shift)
        request = replace(request, relative_shift=relative_shift)
        processes = 2 if side == "original" else 1
        ended = self.session.work("program", request, folder, self.project, processes=processes)
        failure = read_failure(Path(request.failure), side)
        if failure is not None and failure.type == "SystemExit" and ended.errors.strip():
            # Its own message is the status; `argparse` and `sys.exit(TEXT)` print the reason.
            failure = replace(failure, message=ended.errors.strip().splitlines()[-1])
        return ProgramRun(ended, read(Path(request.record)), failure)

    def trace(self) -> Trace:
        """Run the original for one step, and trace the modules that it calls."""
        request, folder = self._request("trace", "trace", 0.0)
        request = replace(request, steps=1)
        ended = self.session.work("program", request, folder, self.project, variables=ON_CPU)
        return tracing.read(Path(request.answer), Path(request.failure), ended, self.project)

    def _request(self, where: str, name: str, shift: float) -> tuple[Request, Path]:
        """What a worker is to run, and the folder that it is started in.

        Each run has a copy of its own: a program may go on from a checkpoint that it finds.
        """
        source = self.project.fixed if where == "torchax" else self.project.original
        root = self.place / "runs" / name / source.name
        shutil.copytree(source, root, dirs_exist_ok=True)
        folder = self.project.working_folder(self.target.file).relative_to(self.project.root)
        file = self.target.file.resolve().relative_to(self.project.root)
        request = Request(
            where=where,
            path=os.path.relpath(
                launching.script(root / file, root, self.place / f"{name}.py"), root / folder
            ),
            arguments=list(self.target.arguments),
            root=str(root),
            record=str(self.place / f"{name}.record"),
            failure=str(self.place / f"{name}.failure"),
            steps=self.session.options.steps,
            shift=shift,
            answer=str(self.place / f"{name}.answer"),
        )
        return request, root / folder
