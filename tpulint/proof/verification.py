"""Verifies programs and modules in copies of their projects."""

from __future__ import annotations

import importlib.metadata
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from tpulint.proof import compilation, modules, programs, tracing
from tpulint.proof.project import Project, copy_project, root_of
from tpulint.proof.results import Compiled, Report, State, Verification
from tpulint.proof.session import Session
from tpulint.proof.targets import Options, Target
from tpulint.verify.platform import choose

_PACKAGES = ("torch", "torchvision", "torchax", "jax", "libtpu", "torchax-compat")


def verify(targets: Sequence[Target], options: Options, report_note: Callable[[str], None]) -> Report:
    """Verify targets.

    Args:
        targets: programs and modules.
        options: the user's options.
        report_note: prints a note, such as the device in use.

    Raises:
        UsageError: a target, an input or a topology does not exist, or a project is too large to be copied.
    """
    platform = choose(options.platform)
    if platform.note:
        report_note(platform.note)
    session = Session(options, platform, report_note)
    compilation.check_topologies(session)
    found: list[Verification] = []
    for root, group in groupby(targets, lambda one: options.project or root_of(one.file)):
        found += _of_project(session, root.resolve(), group)
    return Report(platform.name, versions(), tuple(found))


def versions() -> dict[str, str]:
    """The versions of the installed packages that affect the results."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _of_project(session: Session, root: Path, targets: Iterable[Target]) -> Iterator[Verification]:
    """Verify the targets of a project; modules share two copies, and each program has its own."""
    modules_of_project = []
    for target in targets:
        if target.expression:
            modules_of_project.append(target)
            continue
        with tempfile.TemporaryDirectory(prefix="tpulint-verify-") as folder:
            start, workspace = time.monotonic(), Path(folder).resolve()
            project = copy_project(root, workspace, session.options.exclude)
            if session.options.compile_only:
                yield _finished(_compiled(session, target, project, workspace), project.fixes, start)
                continue
            result = programs.verify_program(session, target, project, workspace)
            yield _finished(_with_costs(result, session, target, project, workspace), project.fixes, start)
    if modules_of_project:
        with tempfile.TemporaryDirectory(prefix="tpulint-verify-") as folder:
            workspace = Path(folder).resolve()
            project = copy_project(root, workspace, session.options.exclude)
            for target in modules_of_project:
                for one in modules.expand(session, target, project, workspace):
                    start = time.monotonic()
                    if session.options.compile_only:
                        yield _finished(_compiled(session, one, project, workspace), project.fixes, start)
                        continue
                    result = modules.verify_module(session, one, project, workspace)
                    if session.options.traces:
                        result = replace(result, trace=tracing.trace_module(session, one, project, workspace))
                    yield _finished(
                        _with_costs(result, session, one, project, workspace), project.fixes, start
                    )


def _compiled(session: Session, target: Target, project: Project, workspace: Path) -> Verification:
    kind = "module" if target.expression else "program"
    result = Verification(target.name, kind, State.NOT_RUN, "only compiled", is_compiled_only=True)
    return _with_costs(result, session, target, project, workspace)


def _with_costs(
    result: Verification, session: Session, target: Target, project: Project, workspace: Path
) -> Verification:
    if not session.options.tpus:
        return result
    if result.failure is not None and result.failure.side == "original":
        error = "the original fails"
        rows = tuple(Compiled(name, "not run", error=error) for name in session.options.tpus)
        return replace(result, compiled=rows)
    return replace(result, compiled=compilation.compile_target(session, target, project, workspace))


def _finished(result: Verification, fixes: int, start: float) -> Verification:
    return replace(result, fixes=fixes, seconds=round(time.monotonic() - start, 1))
