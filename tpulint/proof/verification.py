"""Verifies programs and modules one after the other, in copies of their projects."""

from __future__ import annotations

import importlib.metadata
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from tpulint.proof import compilation, modules, programs, tracing
from tpulint.proof.project import Project, copied, root_of
from tpulint.proof.results import Compiled, Report, State, Verification
from tpulint.proof.session import Session
from tpulint.proof.targets import Options, Target
from tpulint.verify.platform import choose

_PACKAGES = ("torch", "torchvision", "torchax", "jax", "libtpu", "torchax-compat")


def verify(targets: Sequence[Target], options: Options, tell: Callable[[str], None]) -> Report:
    """Verify targets; `tell` hears notes such as the device in use.

    Raises:
        UsageError: a target, an input or a topology does not exist, or a project is too large to be copied.
    """
    platform = choose(options.platform)
    if platform.note:
        tell(platform.note)
    session = Session(options, platform, tell)
    compilation.check_topologies(session)
    found: list[Verification] = []
    for root, group in groupby(targets, lambda one: options.project or root_of(one.file)):
        found += _of_project(session, root.resolve(), group)
    return Report(platform.name, versions(), tuple(found))


def versions() -> dict[str, str]:
    """The installed versions of the packages that the results depend on."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _of_project(session: Session, root: Path, targets: Iterable[Target]) -> Iterator[Verification]:
    """Verify targets in the same two copies; a program gets copies of its own, since it may write to them."""
    modules_of_project = []
    for target in targets:
        if target.expression:
            modules_of_project.append(target)
            continue
        with tempfile.TemporaryDirectory(prefix="tpulint-verify-") as folder:
            start, place = time.monotonic(), Path(folder).resolve()
            project = copied(root, place, session.options.exclude)
            if session.options.compile_only:
                yield _finished(_compiled(session, target, project, place), project.fixes, start)
                continue
            result = programs.verified(session, target, project, place)
            yield _finished(_with_costs(result, session, target, project, place), project.fixes, start)
    if modules_of_project:
        with tempfile.TemporaryDirectory(prefix="tpulint-verify-") as folder:
            place = Path(folder).resolve()
            project = copied(root, place, session.options.exclude)
            for target in modules_of_project:
                for one in modules.expanded(session, target, project, place):
                    start = time.monotonic()
                    if session.options.compile_only:
                        yield _finished(_compiled(session, one, project, place), project.fixes, start)
                        continue
                    result = modules.verified(session, one, project, place)
                    if session.options.traces:
                        result = replace(result, trace=tracing.of_module(session, one, project, place))
                    yield _finished(_with_costs(result, session, one, project, place), project.fixes, start)


def _compiled(session: Session, target: Target, project: Project, place: Path) -> Verification:
    kind = "module" if target.expression else "program"
    result = Verification(target.name, kind, State.NOT_RUN, "only compiled", is_compiled_only=True)
    return _with_costs(result, session, target, project, place)


def _with_costs(
    result: Verification, session: Session, target: Target, project: Project, place: Path
) -> Verification:
    if not session.options.tpus:
        return result
    if result.failure is not None and result.failure.side == "original":
        error = "the original fails"
        rows = tuple(Compiled(name, "not run", error=error) for name in session.options.tpus)
        return replace(result, compiled=rows)
    return replace(result, compiled=compilation.of_target(session, target, project, place))


def _finished(result: Verification, fixes: int, start: float) -> Verification:
    return replace(result, fixes=fixes, seconds=round(time.monotonic() - start, 1))
