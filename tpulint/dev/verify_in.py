"""Executes the fixture cases of an environment of their own, and records the outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tpulint.evidence import elsewhere, records
from tpulint.evidence.environments import ENVIRONMENTS
from tpulint.evidence.lock import name_of
from tpulint.fixture import Case, cases
from tpulint.testing import rewritten
from tpulint.verify.result import State

TIMEOUT = 300.0
"""The time limit for each side of a case, in seconds."""
_JOBS = 2


def verified(root: Path, name: str, which: Sequence[str], *, everything: bool) -> Iterator[tuple[str, bool]]:
    """Execute cases that changed, and record their outcomes; a text for each, and whether it is as claimed.

    Args:
        root: the checkout.
        name: the environment.
        which: rules or cases, such as `RULE/CASE`; all if there are none.
        everything: execute unchanged cases, too.
    """
    environment, fixtures = ENVIRONMENTS[name], root / "fixtures"
    path = environment.record(fixtures)
    own = [case for case in cases(fixtures) if case.environment == name]
    fixed = {name_of(case): rewritten(case) for case in own}
    chosen = [case for case in own if not which or {case.rule, name_of(case)} & set(which)]
    stale = [
        case
        for case in chosen
        if everything or records.result(case, fixed[name_of(case)]).state is State.FAILED
    ]

    def execute(case: Case) -> elsewhere.Outcome:
        return elsewhere.outcome_of(case, fixed[name_of(case)], environment, root, TIMEOUT)

    known = {key: entry for key, entry in records.read(path).items() if key in fixed}
    with ThreadPoolExecutor(_JOBS) as pool:
        for case, outcome in zip(stale, pool.map(execute, stale), strict=True):
            key = name_of(case)
            known.pop(key, None)
            if outcome.state is not State.FAILED:
                known[key] = records.entry(case, fixed[key], environment, outcome)
            yield _line(key, outcome), outcome.state is not State.FAILED
    records.write(path, environment, fixtures, known)
    yield f"{path.name}: {len(known)} of {len(own)} cases, {len(stale)} of them executed now", True


def _line(name: str, outcome: elsewhere.Outcome) -> str:
    parts = {
        "claimed": outcome.claimed,
        "before": outcome.before,
        "after": outcome.after,
        "note": outcome.note,
    }
    return "\n".join(
        [f"{name}: {outcome.state}", *(f"  {what}: {text}" for what, text in parts.items() if text)]
    )
