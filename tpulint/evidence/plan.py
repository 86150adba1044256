"""Which cases a run executes, given a lock, and what of that goes into the lock."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from pathlib import Path

from tpulint.evidence import lock as locks
from tpulint.evidence.lock import (
    NAME,
    Entry,
    Lock,
    LockError,
    inputs_of,
    name_of,
    outcomes_of,
    sealed,
    versions,
)
from tpulint.fixture import Case
from tpulint.verify.result import Result, State, case_state

SAMPLE = 0.03
"""The share of the unchanged cases that is executed all the same."""
STAGE = "lock"
"""The stage of the row of a case that is not executed."""
Execute = Callable[[Sequence[str]], tuple[Result, ...]]


class Why(StrEnum):
    """Why a case is executed, or its line in the lock is not up to date."""

    ALL = "all cases are executed"
    NEW = "not in the lock"
    CHANGED = "changed since the lock was written"
    SAMPLED = "in the sample of unchanged cases"
    DENIED = "its recorded outcome is wrong"
    EDITED = "edited while it was executed"
    GONE = "no such case"


@dataclass
class Plan:
    """A lock beside one run: which cases the run need not execute, and what it adds to the lock.

    With `executes_all`, cases that the lock has are executed, too; with `writes_lock`, changed cases are
    compiled for all TPU targets, so that their lines are complete.
    """

    path: Path
    lock: Lock
    targets: tuple[str, ...]
    executes_all: bool = False
    writes_lock: bool = False
    sample: frozenset[str] = frozenset()
    sampled_target: str = ""
    """The TPU target that sampled cases are compiled for."""
    stale: dict[str, Why] = field(default_factory=dict)
    """The cases whose lines are missing or not up to date, as far as the run has come to them."""
    entries: dict[str, Entry | None] = field(default_factory=dict)
    """The new entries of executed cases; None for a case whose line must go."""

    @property
    def other_versions(self) -> str:
        """How the installed versions differ from those that the lock was made with; "" if they do not."""
        if not self.lock.entries:
            return ""
        here, there = versions(), self.lock.versions
        names = [name for name in here if here[name] != there.get(name)]
        return ", ".join(f"{name} {there.get(name, 'none')}, installed {here[name]}" for name in names)

    def results(self, case: Case, fixed: Mapping[str, str], execute: Execute) -> tuple[Result, ...]:
        """The rows of a case: one that says that it is locked, or those of its execution.

        Args:
            case: the case.
            fixed: the current output of `fix` for it.
            execute: executes the case, and compiles it for the TPU targets that it is given.
        """
        name, inputs = name_of(case), inputs_of(case, fixed, self.targets)
        why = self._why(name, inputs)
        if why is None:
            return _locked(case, self.lock.entries[name])
        results = execute(self._targets_for(why))
        if inputs_of(case, fixed, self.targets) != inputs:
            self.stale[name], self.entries[name] = Why.EDITED, None
        elif why is Why.SAMPLED:
            results = (*results, *self._differences(results, self.lock.entries[name].outcomes))
            if case_state(results) is State.FAILED:
                self.stale[name], self.entries[name] = Why.DENIED, None
        elif case_state(results) is State.FAILED:
            self.entries[name] = None
        elif self._targets_for(why) == self.targets:
            outcomes = outcomes_of(results)
            self.entries[name] = Entry(sealed(inputs, outcomes), outcomes)
        return results

    def _why(self, name: str, inputs: str) -> Why | None:
        """Why a case has to be executed; None if the lock still holds for it."""
        entry = self.lock.entries.get(name)
        if entry is None:
            self.stale[name] = Why.NEW
        elif entry.digest != sealed(inputs, entry.outcomes):
            self.stale[name] = Why.CHANGED
        if self.executes_all:
            return Why.ALL
        return self.stale.get(name, Why.SAMPLED if name in self.sample else None)

    def _targets_for(self, why: Why) -> tuple[str, ...]:
        """The TPU targets to compile for: all where a complete line is wanted, otherwise one."""
        if why is Why.SAMPLED:
            return (self.sampled_target or self.targets[0],)
        return self.targets if self.writes_lock or self.executes_all else self.targets[:1]

    def _differences(self, results: Sequence[Result], recorded: Mapping[str, str]) -> list[Result]:
        """A failed row for each stage whose outcome is not the recorded one."""
        if case_state(results) is State.FAILED:
            return []
        happened = outcomes_of(results)
        skipped = {f"{side}/tpu {target}" for side in ("original", "fixed") for target in self.targets}
        stages = [*happened, *(stage for stage in recorded if stage not in {*happened, *skipped})]
        return [
            replace(
                results[0],
                side="fixed" if stage.startswith("fixed/") else "original",
                stage=stage.partition("/")[2],
                claimed=f"{NAME} records: {recorded.get(stage, 'nothing')}",
                happened=happened.get(stage, "not executed"),
                state=State.FAILED,
            )
            for stage in stages
            if happened.get(stage) != recorded.get(stage)
        ]

    def removed(self, cases: Iterable[Case]) -> list[str]:
        """The names in the lock that no executable case has, given all cases."""
        return sorted(self.lock.entries.keys() - {name_of(case) for case in cases if case.run})

    def updated_lock(self, cases: Iterable[Case], *, interrupted: bool = False) -> Lock:
        """The lock with the new entries; `cases` are all that there are, so that others are dropped.

        Lines of failed cases are removed, but not after an interruption, which makes cases fail.
        """
        try:
            known = dict(locks.read(self.path).entries)  # another run may have written meanwhile
        except LockError:
            known = {}
        names = {name_of(case) for case in cases if case.run}
        for name, entry in self.entries.items():
            if entry is not None:
                known[name] = entry
            elif not interrupted:
                known.pop(name, None)
        kept = {name: entry for name, entry in known.items() if name in names}
        return Lock(versions(), self.targets, kept)


def _locked(case: Case, entry: Entry) -> tuple[Result, ...]:
    """The row of a case that is not executed, since its line is up to date."""
    state = State.LOCKED if entry.is_run else State.NOT_RUN
    happened = "unchanged since it was executed" if entry.is_run else "its run.py says why"
    return (Result(case.rule, case.name, STAGE, "original", "", happened, state),)


def plan(
    path: Path,
    cases: Sequence[Case],
    targets: Sequence[str],
    *,
    executes_all: bool,
    writes_lock: bool,
    seed: str | None = None,
) -> Plan:
    """The plan of a run over some cases beside a lock file.

    If the lock was made with other versions, all cases are executed, and it is only written if that was asked
    for anyway.
    The sample depends on `seed`: by default the hash of the commit, or the date where there is none.

    Raises:
        LockError: when the file cannot be read and the run does not replace it.
    """
    try:
        lock = locks.read(path)
    except LockError:
        if not (executes_all and writes_lock):
            raise
        lock = Lock()
    seed = seed if seed is not None else _commit(path.parent) or date.today().isoformat()
    names = sorted((name_of(case) for case in cases), key=lambda name: _hash(seed, name))
    sample = frozenset(names[: max(1, round(SAMPLE * len(names)))])
    target = targets[_hash(seed, "target")[0] % len(targets)]
    made = Plan(path, lock, tuple(targets), executes_all, writes_lock, sample, target)
    if made.other_versions and not executes_all:
        made.executes_all, made.writes_lock = True, False
    return made


def _commit(folder: Path) -> str:
    """The hash of the commit that a folder is at; "" where Git knows none."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        asked = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""


def _hash(seed: str, name: str) -> bytes:
    return hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8).digest()
