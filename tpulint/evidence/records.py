"""`evidence-NAME.json`: the recorded outcomes of the fixture cases of an environment, with digests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path

from tpulint.digest import digest
from tpulint.evidence import driver, elsewhere
from tpulint.evidence.elsewhere import Outcome
from tpulint.evidence.environments import ENVIRONMENTS, Environment
from tpulint.evidence.lock import contents_of, name_of
from tpulint.fixture import Case
from tpulint.verify.result import Result, State

_SIZE = 16


def read(path: Path) -> dict[str, dict[str, str]]:
    """The recorded outcome of each case by its name, with `digest` and `state`; none if there is no file."""
    if not path.is_file():
        return {}
    cases: dict[str, dict[str, str]] = json.loads(path.read_text("utf-8"))["cases"]
    return cases


def write(
    path: Path, environment: Environment, fixtures: Path, cases: Mapping[str, Mapping[str, str]]
) -> None:
    """Write the outcomes, one line for each case."""
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in sorted(cases.items())]
    head = f'"pins": {json.dumps(environment.pins(fixtures).split(chr(10)))}'
    path.write_text(f'{{\n{head},\n"cases": {{\n' + ",\n".join(lines) + "\n}\n}\n", encoding="utf-8")


def entry(case: Case, fixed: Mapping[str, str], environment: Environment, outcome: Outcome) -> dict[str, str]:
    """The record of a case."""
    words = {key: str(value) for key, value in asdict(outcome).items() if value}
    return {"digest": _digest(case, fixed, environment, words), **words}


def result(case: Case, fixed: Mapping[str, str]) -> Result:
    """The row of a case in a run that does not execute it: what is recorded, or how to record it."""

    def row(state: State, happened: str, claimed: str = "") -> Result:
        return Result(
            case.rule,
            case.name,
            "recorded",
            "original",
            claimed,
            happened,
            state,
            environment=case.environment,
        )

    environment = ENVIRONMENTS.get(case.environment)
    if environment is None:
        return row(State.FAILED, f"run.py names an environment that there is not: {case.environment}")
    known = dict(read(environment.record(_fixtures(case))).get(name_of(case), {}))
    recorded = known.pop("digest", "")
    if not known or recorded != _digest(case, fixed, environment, known):
        why = "changed since it was executed" if known else "never executed"
        return row(State.FAILED, f"{why} in its environment: run `{environment.command}`")
    sides = [f"{side} {known[side]}" for side in ("before", "after") if side in known]
    happened = "; ".join([*sides, *([known["note"]] if "note" in known else [])])
    match State(known["state"]):
        case State.VERIFIED:
            return row(State.LOCKED, happened, known["claimed"])
        case state:
            return row(state, happened, known.get("claimed", ""))


def _fixtures(case: Case) -> Path:
    return case.folder.parents[1]


def _digest(
    case: Case, fixed: Mapping[str, str], environment: Environment, outcome: Mapping[str, str]
) -> str:
    """A digest of all that the outcome of a case depends on, and of the outcome itself."""
    words = (part for pair in outcome.items() for part in pair)
    seal = environment.seal(_fixtures(case))
    if case.fixed_in != environment.name:
        seal += ENVIRONMENTS[case.fixed_in].seal(_fixtures(case))
    return digest(contents_of(case, fixed), seal, _code(), *words, size=_SIZE)


@cache
def _code() -> str:
    """A digest of the code that executes cases and compares what they give."""
    return digest(*(Path(str(module.__file__)).read_bytes() for module in (driver, elsewhere)))
