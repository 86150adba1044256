"""Compiles a fixed module, or the training step of a fixed program, for TPUs."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tpulint.proof import launching
from tpulint.proof.processes import ProcessResult, run
from tpulint.proof.project import Project
from tpulint.proof.results import Collective, Compiled, Frame, Memory
from tpulint.proof.session import Session, read_failure
from tpulint.proof.targets import Target
from tpulint.proof.workers import compiling, compiling_step, topologies

VARIABLES = {
    # With the default effort, the compiler takes minutes for two matrix products on v6e.
    "JAX_EXEC_TIME_OPTIMIZATION_EFFORT": "-1.0",
    "TPU_SKIP_MDS_QUERY": "1",
    "JAX_PLATFORMS": "cpu",
}
"""The environment variables of a process that compiles for a TPU without having one."""


def check_topologies(session: Session) -> None:
    """Check the topologies that the user named, before the project is copied.

    Raises:
        UsageError: libtpu does not know a topology, or the mesh has more chips than it.
    """
    options = session.options
    if not options.tpus:
        return
    with tempfile.TemporaryDirectory(prefix="tpulint-verify-") as folder:
        failure, file = Path(folder, "topologies.failure"), Path(folder, "topologies.request")
        request = topologies.Request([*options.tpus], [*options.mesh.axes], str(failure))
        file.write_text(json.dumps(asdict(request)), encoding="utf-8")
        environment = {**session.environment(), **VARIABLES}
        run(["-P", "-m", topologies.__name__, str(file)], Path(folder), environment, session.limits)
        read_failure(failure, "fixed")


def compile_target(
    session: Session, target: Target, project: Project, workspace: Path
) -> tuple[Compiled, ...]:
    """The result of the compiler for each topology that the user named."""
    answer, failure = workspace / "compiled.answer", workspace / "compiled.failure"
    for path in (answer, failure):
        path.unlink(missing_ok=True)
    folder = project.in_fixed(project.working_folder(target.file))
    file, options = project.in_fixed(target.file), session.options
    request: compiling.Request | compiling_step.Request
    if target.expression:
        request = compiling.Request(
            path=str(file),
            expression=target.expression,
            inputs=list(target.inputs),
            root=str(project.fixed),
            answer=str(answer),
            failure=str(failure),
            topologies=list(options.tpus),
            axes=list(options.mesh.axes),
            rules=[(pattern, list(axes)) for pattern, axes in options.mesh.rules],
            gradients=options.gradients,
            largest_batch=options.largest_batch,
        )
    else:
        request = compiling_step.Request(
            path=os.path.relpath(launching.script(file, project.fixed, workspace / "compiled.py"), folder),
            arguments=list(target.arguments),
            root=str(project.fixed),
            answer=str(answer),
            failure=str(failure),
            topologies=list(options.tpus),
        )
    worker = "compiling" if target.expression else "compiling_step"
    process = session.run_worker(worker, request, folder, project, variables=VARIABLES)
    return _read(answer, failure, process, options.tpus)


def _read(
    answer: Path, failure: Path, process: ProcessResult, names: tuple[str, ...]
) -> tuple[Compiled, ...]:
    failed = read_failure(failure, "fixed")
    if failed is not None:
        error = f"{failed.type}: {failed.message}"
        return tuple(Compiled(name, "fails", error=error, frames=failed.frames) for name in names)
    if not answer.exists():
        error = process.error or "the process wrote no result"
        return tuple(Compiled(name, "not run", error=error) for name in names)
    rows = json.loads(answer.read_text(encoding="utf-8"))
    if not rows:
        error = "the program does not call the `step` of an optimizer"
        return tuple(Compiled(name, "not run", error=error) for name in names)
    return tuple(map(_compiled, rows))


def _compiled(row: dict[str, Any]) -> Compiled:
    values = {
        **row,
        "memory": Memory(**row.get("memory", {})),
        "collectives": tuple(Collective(**one) for one in row.get("collectives", ())),
        "frames": tuple(Frame(**one) for one in row.get("frames", ())),
    }
    return Compiled(**values)
