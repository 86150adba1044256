"""Which cases a run executes beside a lock, and what it finds wrong with that."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from tpulint.fixture import Case
from tpulint.verify.lock import NAME, Entry, Lock, digest, entry_of, name_of, outcomes_of, read, versions
from tpulint.verify.result import Result, State, case_state

SAMPLE = 0.03
"""The share of the unchanged cases that is executed all the same."""


class Why(StrEnum):
    """Why a case is executed."""

    EVERYTHING = "everything is executed"
    NEW = "not in the lock"
    CHANGED = "changed since the lock was written"
    SAMPLED = "in the sample of the unchanged ones"


@dataclass
class Evidence:
    """A lock beside one run: what need not be executed, and what the run adds to it or finds wrong in it.

    `everything` executes the cases that the lock has, too; `keeps` says that the lock is to be written.
    """

    path: Path
    lock: Lock
    targets: tuple[str, ...]
    everything: bool = False
    keeps: bool = False
    sample: frozenset[str] = frozenset()
    stale: dict[str, Why] = field(default_factory=dict)
    """The cases whose lines are missing or no longer fit, as far as they were looked at."""
    entries: dict[str, Entry | None] = field(default_factory=dict)
    """What was executed: its new entries, None for what failed."""

    @property
    def other_versions(self) -> str:
        """How the versions here differ from the lock's, in words; "" where they do not."""
        if not self.lock.entries:
            return ""
        here, there = versions(), self.lock.versions
        names = [name for name in here if here[name] != there.get(name, "")]
        return ", ".join(f"{name} {here[name] or 'none'}, not {there.get(name) or 'none'}" for name in names)

    def why(self, case: Case, fixed: Mapping[str, str]) -> Why | None:
        """Why a case has to be executed; None where the lock still holds for it."""
        name = name_of(case)
        entry = self.lock.entries.get(name)
        if entry is None:
            self.stale[name] = Why.NEW
        elif entry.digest != digest(case, fixed, self.targets, entry.outcomes):
            self.stale[name] = Why.CHANGED
        if self.everything:
            return Why.EVERYTHING
        return self.stale.get(name, Why.SAMPLED if name in self.sample else None)

    def targets_for(self, why: Why) -> tuple[str, ...]:
        """The TPU targets to compile a case for: all of them where its line is to be written, else one."""
        is_written = self.keeps and why is not Why.SAMPLED
        return self.targets if is_written or self.everything else self.targets[:1]

    def locked(self, case: Case) -> tuple[Result, ...]:
        """The row of a case that is not executed."""
        entry = self.lock.entries[name_of(case)]
        state = State.LOCKED if entry.is_run else State.NOT_RUN
        happened = "unchanged since it was executed" if entry.is_run else "its run.py says why not"
        return (Result(case.rule, case.name, "lock", "original", "", happened, state),)

    def executed(
        self, case: Case, fixed: Mapping[str, str], why: Why, results: tuple[Result, ...]
    ) -> tuple[Result, ...]:
        """The rows of a case that was executed, with a failed one for each outcome that the lock denies."""
        name = name_of(case)
        if why is Why.SAMPLED:
            return (*results, *_denied(results, self.lock.entries[name].outcomes))
        if self.targets_for(why) == self.targets:
            self.entries[name] = entry_of(case, fixed, self.targets, results)
        return results

    def gone(self, cases: Sequence[Case]) -> list[str]:
        """The cases of the lock that are no more, given all that there are."""
        return sorted(self.lock.entries.keys() - {name_of(case) for case in cases})

    def written(self, cases: Sequence[Case]) -> Lock:
        """The lock with what was executed; `cases` are all that there are, so that others are dropped."""
        known = {} if self.other_versions else self.lock.entries
        names = {name_of(case) for case in cases}
        entries = {**known, **self.entries}
        kept = {name: entry for name, entry in entries.items() if entry is not None and name in names}
        return replace(self.lock, versions=versions(), targets=self.targets, entries=kept)


def _denied(results: Sequence[Result], outcomes: Mapping[str, str]) -> list[Result]:
    """A failed row for each stage that came to something else than a lock says."""
    if case_state(results) is State.FAILED:
        return []
    happened = outcomes_of(results)
    rows = {f"{row.side}/{row.stage}": row for row in results}
    return [
        replace(
            rows[stage], claimed=f"{outcomes.get(stage, 'nothing')}, as {NAME} has it", state=State.FAILED
        )
        for stage in happened
        if happened[stage] != outcomes.get(stage)
    ]


def beside(
    path: Path,
    cases: Sequence[Case],
    targets: Sequence[str],
    *,
    everything: bool,
    keeps: bool,
    commit: str | None = None,
) -> Evidence:
    """A lock file beside a run over some cases; the sample of these is chosen by the commit's hash.

    Raises:
        LockError: when the file cannot be read.
    """
    names = [name_of(case) for case in cases]
    seed = commit if commit is not None else commit_of(path.parent)
    chosen = frozenset(
        sorted(names, key=lambda name: _number(seed, name))[: max(1, round(SAMPLE * len(names)))]
    )
    return Evidence(
        path, read(path), tuple(targets), everything, keeps, frozenset() if everything else chosen
    )


def commit_of(folder: Path) -> str:
    """The hash of the commit that a folder is at; "" where Git knows none."""
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""


def _number(seed: str, name: str) -> bytes:
    return hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8).digest()
