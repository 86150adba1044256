"""One run of `tpulint verify`: which cases, each fixed in another process, and what the lock says of them."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from tpulint import verify
from tpulint.fixture import Case, cases
from tpulint.invocation import UsageError
from tpulint.report import verification
from tpulint.report.paint import Paint
from tpulint.verify import Evidence, Options, Result, State, case_state, exit_status, locked
from tpulint.verify import lock as locks

_SHOWN = 10
"""How many cases are named of which the lock is out of date."""


class Run:
    """The cases that a command line names, and how they are to be executed.

    Raises:
        UsageError: where it names none.
    """

    def __init__(
        self,
        which: Sequence[str],
        fixtures: Path | None,
        options: Options,
        tell: Callable[[str], None],
    ) -> None:
        from tpulint.registry import rules

        self._codes = {rule.folder: rule.code for rule in rules()}
        self._fixtures = _folder(fixtures)
        self._all = cases(self._fixtures)
        self._cases = _named(which, self._all, self._fixtures, self._codes)
        self._options, self._tell = options, tell
        self._evidence: Evidence | None = None

    def beside_lock(self, *, everything: bool, keeps: bool) -> None:
        """Execute what the lock does not have, or `everything`; write it to the lock where that `keeps` it.

        Raises:
            UsageError: when the lock cannot be read.
        """
        self._options = replace(self._options, platform="cpu")
        path = self._fixtures / locks.NAME
        try:
            self._evidence = locked.beside(
                path, self._cases, self._options.tpus, everything=everything, keeps=keeps
            )
        except locks.LockError as error:
            raise UsageError(str(error)) from None
        if others := self._evidence.other_versions:
            self._tell(f"{locks.NAME} is of other versions, so all is executed: {others} there")

    def report(self, write: Callable[[str], None], paint: Paint, *, quiet: bool, as_json: bool) -> int:
        """Execute, write a report as it comes, and give the exit code."""
        results: list[Result] = []
        table = not as_json
        if table and not quiet:
            write(verification.heading(paint))
        with _Fixes(self._options.jobs) as fix:
            executed = verify.verify(self._cases, fix, self._options, self._tell, self._evidence)
            try:
                for group in verification.by_case(executed):
                    results += group
                    state = case_state(group)
                    if table and state is not State.LOCKED and not (quiet and state is State.VERIFIED):
                        write(verification.case(group, self._codes.get(group[0].rule, ""), paint))
            except KeyboardInterrupt:
                self._close()  # what was executed so far need not be again
                raise
        write(
            verification.summary(results, self._codes, paint)
            if table
            else verification.render_json(results, self._codes)
        )
        status = exit_status(results)
        return max(status, self._close()) if self._evidence else status

    def _close(self) -> int:
        """Write the lock, or say how far it is out of date; 1 where it is and stays so."""
        assert self._evidence is not None
        evidence, total = self._evidence, len(self._cases) == len(self._all)
        gone = evidence.gone(self._all) if total else []
        outdated = [f"{name} ({why})" for name, why in sorted(evidence.stale.items())]
        outdated += [f"{name} (no such case)" for name in gone]
        if evidence.keeps and (evidence.everything or not evidence.other_versions):
            lock = evidence.written(self._all)
            if lock != evidence.lock:
                locks.write(evidence.path, lock)
                self._tell(f"{evidence.path} was written: {len(outdated)} of its lines were out of date")
            return 0
        if evidence.other_versions or not outdated:
            return 0
        more = f", and {len(outdated) - _SHOWN} more" if len(outdated) > _SHOWN else ""
        self._tell(f"{evidence.path} is out of date: {', '.join(outdated[:_SHOWN])}{more}")
        self._tell("`tpulint verify --locked --update-lock`, as in `make test`, brings it up to date")
        return 1


class _Fixes:
    """What `fix` makes of cases, in several processes; whoever calls it waits. Use as a context manager."""

    def __init__(self, jobs: int | None) -> None:
        self._pool = ProcessPoolExecutor(
            jobs or min(2, os.cpu_count() or 1), multiprocessing.get_context("spawn")
        )

    def __enter__(self) -> _Fixes:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def __call__(self, case: Case) -> Mapping[str, str]:
        from tpulint.testing import rewritten

        return self._pool.submit(rewritten, case).result()


def _folder(given: Path | None) -> Path:
    """The folder with the cases: the one that is named, or the one here, or the checkout's own."""
    here, own = Path("fixtures"), Path(__file__).parents[1] / "fixtures"
    folder = given or (here if here.is_dir() else own)
    if not folder.is_dir():
        raise UsageError(f"there is no folder `{folder}` with cases; name it with --fixtures")
    return folder


def _named(which: Sequence[str], found: Sequence[Case], folder: Path, codes: Mapping[str, str]) -> list[Case]:
    """The cases that a command line names by code, rule or name; all where it names none."""
    if not found:
        raise UsageError(f"`{folder}` holds no cases")
    chosen = set()
    for word in which:
        text = word.strip("/")
        matching = {
            case.folder
            for case in found
            if text.replace("-", "_") in (case.rule, f"{case.rule}/{case.name}".replace("-", "_"))
            or text == case.name
            or codes.get(case.rule, " ").startswith(text)
        }
        if not matching:
            raise UsageError(f"no case in `{folder}` is called `{word}`, nor is a rule with cases")
        chosen |= matching
    return [case for case in found if not which or case.folder in chosen]
