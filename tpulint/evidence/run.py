"""One run of `tpulint verify-rules`: its cases, each fixed in another process, and what the lock says."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from tpulint import verify
from tpulint.evidence import lock as locks
from tpulint.evidence import records
from tpulint.evidence.plan import STAGE, Execute, Plan, Why, plan
from tpulint.fixture import Case, cases
from tpulint.invocation import UsageError
from tpulint.report import verification
from tpulint.report.paint import Paint
from tpulint.verify import Options, Result, State, case_state, exit_status

_SHOWN = 10
"""How many cases are named of which the lock is out of date."""
_FINE = (State.VERIFIED, State.LOCKED)
_USER_VARIABLES = ("JAX_", "XLA_", "TORCH_", "PYTORCH_", "TPULINT_TORCHVISION")
"""How the variables begin that change what torch, JAX and the verifier do."""


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
        notify: Callable[[str], None],
    ) -> None:
        from tpulint.registry import former_names, rules

        self._codes = {rule.folder: rule.code for rule in rules()}
        self._fixtures = _folder(fixtures)
        self._all = tuple(case for case in cases(self._fixtures) if case.has_code)
        words = [_with_current_name(word, former_names()) for word in which]
        self._cases = _named(words, self._all, self._fixtures, self._codes)
        self._options, self._notify = options, notify
        self._plan: Plan | None = None

    def beside_lock(self, *, executes_all: bool, writes_lock: bool) -> None:
        """Execute only what the lock does not have, or all; write the lock if that is asked for.

        Raises:
            UsageError: when the lock cannot be read, or not be written.
        """
        path = self._fixtures / locks.NAME
        if writes_lock and not os.access(path.parent, os.W_OK):
            raise UsageError(f"{path} cannot be written")
        # What these tell torch and JAX is no part of the lock.
        for name in [name for name in os.environ if name.startswith(_USER_VARIABLES)]:
            del os.environ[name]
        self._options = replace(self._options, platform="cpu")
        try:
            self._plan = plan(
                path,
                _locked(self._cases),
                self._options.tpus,
                executes_all=executes_all,
                writes_lock=writes_lock,
            )
        except locks.LockError as error:
            raise UsageError(str(error)) from None
        if others := self._plan.other_versions:
            self._notify(f"{path} was made with other versions ({others}): executing all cases")

    def report(self, write: Callable[[str], None], paint: Paint, *, quiet: bool, as_json: bool) -> int:
        """Execute, write a report as it comes, and give the exit code."""
        results: list[Result] = []
        table = not as_json
        if table and not quiet:
            write(verification.heading(paint))
        with _Fixes(self._options.jobs) as fix:
            executed = verify.verify(self._cases, fix, self._options, self._notify, self._results)
            try:
                for group in verification.by_case(executed):
                    results += group
                    is_shown = group[0].stage != STAGE and not (quiet and case_state(group) in _FINE)
                    if table and is_shown:
                        write(verification.case(group, self._codes.get(group[0].rule, ""), paint))
            except KeyboardInterrupt:
                if self._plan and self._plan.writes_lock:
                    self._write_lock(self._plan, interrupted=True)  # what was executed need not be again
                raise
        write(
            verification.summary(results, self._codes, paint)
            if table
            else verification.render_json(results, self._codes)
        )
        status = exit_status(results)
        return max(status, self._finish(self._plan)) if self._plan else status

    def _results(self, case: Case, fixed: Mapping[str, str], execute: Execute) -> tuple[Result, ...]:
        """The rows of a case, which is executed unless it is on record, or has an environment of its own."""
        if case.environment:
            return (records.result(case, fixed),)
        return self._plan.results(case, fixed, execute) if self._plan else execute(self._options.tpus)

    def _finish(self, plan: Plan) -> int:
        """Write the lock, or say how far it is out of date; 1 where it is and stays so."""
        if plan.writes_lock:
            return self._write_lock(plan)
        if plan.other_versions:
            self._notify(f"{plan.path} is not written: `make evidence` makes it with the installed versions")
            return 0
        stale = dict(plan.stale)
        if len(self._cases) == len(self._all):
            stale |= dict.fromkeys(plan.removed(_locked(self._all)), Why.GONE)
        if not stale:
            return 0
        shown = [f"{name} ({why})" for name, why in sorted(stale.items())]
        more = f", and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        self._notify(f"{plan.path} is out of date: {', '.join(shown[:_SHOWN])}{more}")
        self._notify("run `make test` and commit it")
        return 1

    def _write_lock(self, plan: Plan, *, interrupted: bool = False) -> int:
        """Write the lock if anything in it changes, and say how much; 1 where it cannot be written."""
        lock = plan.updated_lock(_locked(self._all), interrupted=interrupted)
        if lock == plan.lock:
            return 0
        before, after = plan.lock.entries, lock.entries
        counts = {
            "changed": sum(before[name] != after[name] for name in before.keys() & after.keys()),
            "added": len(after.keys() - before.keys()),
            "removed": len(before.keys() - after.keys()),
        }
        try:
            locks.write(plan.path, lock)
        except OSError as error:
            self._notify(f"{plan.path} cannot be written: {error.strerror or error}")
            return 1
        said = ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "versions"
        self._notify(f"wrote {plan.path}: {said}")
        return 0


def _locked(found: Sequence[Case]) -> list[Case]:
    """The cases that may have a line in the lock: those without an environment of their own."""
    return [case for case in found if not case.environment]


class _Fixes:
    """What `fix` makes of cases, in several processes; whoever calls it waits. Use as a context manager."""

    def __init__(self, jobs: int | None) -> None:
        self._pool = ProcessPoolExecutor(
            jobs or min(2, os.cpu_count() or 1),
            multiprocessing.get_context("spawn"),
            initializer=signal.signal,
            initargs=(signal.SIGINT, signal.SIG_IGN),  # who waits for it handles that
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
    here, own = Path("fixtures"), Path(__file__).parents[2] / "fixtures"
    folder = given or (here if here.is_dir() else own)
    if not folder.is_dir():
        raise UsageError(f"there is no folder `{folder}` with cases; name it with --fixtures")
    return folder


def _with_current_name(word: str, former: Mapping[str, str]) -> str:
    """A word for cases, in which a former name of a rule is replaced."""
    rule, slash, name = word.partition("/")
    return former.get(rule.replace("_", "-"), rule) + slash + name


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
