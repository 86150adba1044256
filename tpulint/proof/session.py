"""Verifies programs and modules one after the other, each in copies of its project."""

from __future__ import annotations

import importlib.metadata
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tpulint.proof import comparison
from tpulint.proof.processes import Ended, Limits, run
from tpulint.proof.project import Project, copied, root_of
from tpulint.proof.results import Failure, Frame, Report, State, Verification
from tpulint.proof.targets import Options, Target
from tpulint.proof.workers.program import Request
from tpulint.verify.platform import Platform, choose
from tpulint.verify.record import Record, read

_PACKAGES = ("torch", "torchvision", "torchax", "jax", "libtpu", "torchax-compat")


@dataclass(frozen=True, slots=True)
class Session:
    """What all verifications of one command have in common."""

    options: Options
    platform: Platform
    tell: Callable[[str], None]

    @property
    def limits(self) -> Limits:
        """Of each process."""
        return Limits(self.options.timeout, self.options.memory)

    def environment(self, processes: int = 1) -> dict[str, str]:
        """The variables of a process, beside which others may run."""
        threads = max(1, (os.cpu_count() or 1) // processes)
        return {"OMP_NUM_THREADS": str(threads), "PYTHONHASHSEED": "0", **self.platform.environment}


def verify(targets: Iterable[Target], options: Options, tell: Callable[[str], None]) -> Report:
    """Verify targets; `tell` hears notes such as the device in use."""
    platform = choose(options.platform)
    if platform.note:
        tell(platform.note)
    session = Session(options, platform, tell)
    return Report(platform.name, versions(), tuple(_verification(session, one) for one in targets))


def versions() -> dict[str, str]:
    """The installed versions of the packages that the results depend on."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _verification(session: Session, target: Target) -> Verification:
    start = time.monotonic()
    root = session.options.project or root_of(target.file)
    with tempfile.TemporaryDirectory(prefix="tpulint-verify-") as folder:
        place = Path(folder).resolve()
        project = copied(root, place, session.options.exclude)
        result = _program(session, target, project, place)
    return replace(result, fixes=project.fixes, seconds=round(time.monotonic() - start, 1))


def _program(session: Session, target: Target, project: Project, place: Path) -> Verification:
    runs = _Programs(session, target, project, place)
    with ThreadPoolExecutor(2) as pool:
        originals = [pool.submit(runs.run, "original", shift) for shift in (0.0, comparison.SHIFT)]
        original, shifted = (future.result() for future in originals)
    result = Verification(target.name, "program", State.NOT_RUN)
    if original.failure or original.ended.death:
        reason = "the original fails on the CPU" if original.failure else original.ended.death
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
    return compared(result, original, fixed, shifted)


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
    rows = [*comparison.records(original.record, fixed.record, shifted.record)]
    texts = (run.ended.printed for run in (original, fixed, shifted))
    if (lines := comparison.printed(*texts)) is not None:
        rows.append(lines)
    state = comparison.worst(rows)
    reason = next((f"{row.what}: {row.detail}" for row in rows if row.state is State.DIFFERS), "")
    if state is State.NOT_RUN:
        reason = "there is nothing to compare: no losses, no modules with state, and no printed lines"
    notes = [f"torchvision's compiled {name} ran as a stand-in" for name in fixed.record.stood_in]
    return replace(result, state=state, reason=reason, compared=tuple(rows), notes=tuple(notes))


@dataclass(frozen=True, slots=True)
class _Programs:
    session: Session
    target: Target
    project: Project
    place: Path

    def run(self, side: str, shift: float) -> ProgramRun:
        """Run one side of the program from its working folder."""
        is_original = side == "original"
        locate = self.project.in_original if is_original else self.project.in_fixed
        name = f"{side}{'-shifted' if shift else ''}"
        record, failure = self.place / f"{name}.record", self.place / f"{name}.failure"
        folder = locate(self.project.working_folder(self.target.file))
        request = Request(
            where="reference" if is_original else "torchax",
            path=os.path.relpath(locate(self.target.file), folder),
            arguments=list(self.target.arguments),
            root=str(self.project.original if is_original else self.project.fixed),
            record=str(record),
            failure=str(failure),
            steps=self.session.options.steps,
            shift=shift,
        )
        file = self.place / f"{name}.json"
        file.write_text(json.dumps(asdict(request)), encoding="utf-8")
        environment = self.session.environment(2 if is_original else 1)
        command = ["-P", "-m", "tpulint.proof.workers.program", str(file)]
        ended = run(command, folder, environment, self.session.limits)
        return ProgramRun(ended, read(record), read_failure(failure, side))


def read_failure(path: Path, side: str) -> Failure | None:
    """The failure that a worker described in a file, if any."""
    if not path.exists():
        return None
    return failure_of(json.loads(path.read_text(encoding="utf-8")), side)


def failure_of(described: dict[str, Any], side: str) -> Failure:
    """A failure from plain values."""
    frames = tuple(Frame(**frame) for frame in described["frames"])
    return Failure(side, described["type"], described["message"], frames)
