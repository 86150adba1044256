"""Cases with an environment of their own: what they come to, and when their record is out of date."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tpulint.evidence import elsewhere, records
from tpulint.evidence.elsewhere import Outcome
from tpulint.evidence.environments import ENVIRONMENTS
from tpulint.fixture import Case, cases
from tpulint.report import verification
from tpulint.report.paint import Paint
from tpulint.verify import Result, State

JAX = ENVIRONMENTS["jax"]
AFTER = "def f():\n    return 1.0\n"
Make = Callable[..., Case]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def made(before: str, run: str, name: str = "case") -> Case:
        folder = tmp_path / "rule" / name
        folder.mkdir(parents=True)
        (folder / "before.py").write_text(before)
        (folder / "run.py").write_text(f'environment = "jax"\n{run}')
        return next(case for case in cases(tmp_path) if case.name == name)

    return made


def outcome(case: Case, after: str | None = AFTER) -> Outcome:
    fixed = {"before.py": after} if after is not None else case.before
    return elsewhere.outcome_of(case, fixed, JAX, Path("nowhere"), timeout=60)


@pytest.mark.parametrize(
    ("before", "run", "state", "words"),
    [
        ("def f():\n    return 1.0\n", 'claim = "equal"', State.VERIFIED, "equal: 1 values"),
        ("def f():\n    return 2.0\n", 'claim = "equal"', State.FAILED, "equal: 1 values"),
        (
            "def f():\n    return 2.0\n",
            'claim = "differs"\ndef expected(): return 1.0',
            State.VERIFIED,
            "differs: the result is 2.0, not 1.0",
        ),
        (
            "import gone\n",
            'claim = "raises ModuleNotFoundError: gone"\ndef expected(): return 1.0',
            State.VERIFIED,
            "raises ModuleNotFoundError: No module named 'gone'",
        ),
        (
            "import gone\n",
            'claim = "raises ModuleNotFoundError: other"\ndef expected(): return 1.0',
            State.FAILED,
            "raises ModuleNotFoundError: No module named 'gone'",
        ),
        (
            "import warnings\ndef f():\n    warnings.warn('old')\n    return 1.0\n",
            'claim = "warns UserWarning: old"',
            State.VERIFIED,
            "equal: 1 values; warns UserWarning: old",
        ),
        (
            "import logging\ndef f():\n    logging.getLogger('x').warning('old %s', 1)\n    return 1.0\n",
            'claim = "warns log: old 1"',
            State.VERIFIED,
            "equal: 1 values; warns log: old 1",
        ),
        (
            "def f():\n    return 1.0\n",
            'claim = "warns UserWarning: old"',
            State.FAILED,
            "equal: 1 values; no such warning",
        ),
    ],
)
def test_original_has_to_do_what_is_claimed_and_fixed_code_to_give_the_values(
    make: Make, before: str, run: str, state: State, words: str
) -> None:
    found = outcome(make(before, run))
    assert (state, words) == (found.state, found.before)


def test_fixed_code_that_raises_or_still_warns_fails(make: Make) -> None:
    case = make(AFTER, 'claim = "equal"')
    assert "raises NameError: name 'g' is not defined" == outcome(case, "def f():\n    return g\n").after
    warned = "import warnings\ndef f():\n    warnings.warn('old')\n    return 1.0\n"
    found = outcome(make(warned, 'claim = "warns UserWarning: old"', "warned"), warned + "\n")
    assert (State.FAILED, "equal: 1 values; warns UserWarning: old") == (found.state, found.after)


def test_program_is_compared_by_what_it_prints(make: Make) -> None:
    case = make("print('loss', 0.5)\n", 'claim = "equal"\nprogram = True')
    assert State.VERIFIED == outcome(case, "print('loss', 0.5000001)\n").state
    assert "differs" in outcome(case, "print('loss', 0.6)\n").after
    assert "differs" in outcome(case, "print('lost', 0.5)\n").after


def test_clean_case_without_values_is_not_verified(make: Make) -> None:
    found = outcome(make("def f():\n    return None\n", 'claim = "equal"'), after=None)
    assert (State.FAILED, "nothing to compare") == (found.state, found.before)


def test_original_without_values_needs_expected_ones(make: Make) -> None:
    found = outcome(make("import gone\n", 'claim = "raises ModuleNotFoundError"'))
    assert State.FAILED == found.state
    assert "no `expected()`" in found.note


def test_stated_reason_is_not_run_and_bad_claim_fails(make: Make) -> None:
    found = outcome(make("import gone\n", 'not_executed = "needs a TPU"'))
    assert (State.NOT_RUN, "needs a TPU") == (found.state, found.note)
    assert State.FAILED == outcome(make(AFTER, 'claim = "works"', "other")).state


def test_process_that_dies_is_a_crash(make: Make) -> None:
    found = outcome(
        make("import os\nos._exit(3)\n", 'claim = "raises Crash: status 3"\ndef expected(): return 1.0')
    )
    assert State.VERIFIED == found.state


@pytest.fixture
def recorded(make: Make, tmp_path: Path) -> Case:
    case = make(AFTER, 'claim = "equal"')
    fixed = {"before.py": AFTER}
    entry = records.entry(case, fixed, JAX, Outcome(State.VERIFIED, "equal", "equal: 1 values"))
    records.write(JAX.record(tmp_path), JAX, tmp_path, {"rule/case": entry})
    return case


def test_recorded_case_is_locked_until_its_files_or_fix_change(recorded: Case) -> None:
    assert State.LOCKED == records.result(recorded, {"before.py": AFTER}).state
    changed = records.result(recorded, {"before.py": AFTER + "\n"})
    assert (State.FAILED, True) == (changed.state, "run `make verify-jax`" in changed.happened)
    (recorded.folder / "run.py").write_text('environment = "jax"\nclaim = "differs"\n')
    assert State.FAILED == records.result(recorded, {"before.py": AFTER}).state


def test_record_that_was_edited_by_hand_does_not_hold(recorded: Case, tmp_path: Path) -> None:
    path = JAX.record(tmp_path)
    path.write_text(path.read_text().replace("1 values", "9 values"))
    assert State.FAILED == records.result(recorded, {"before.py": AFTER}).state


def test_case_that_was_never_executed_or_whose_environment_is_unknown_fails(make: Make) -> None:
    case = make(AFTER, 'claim = "equal"')
    assert "never executed" in records.result(case, {"before.py": AFTER}).happened
    assert case.run is not None
    case.run.write_text('environment = "mars"\n')
    assert "mars" in records.result(case, {"before.py": AFTER}).happened


def test_summary_counts_cases_with_an_environment_apart(recorded: Case) -> None:
    here = Result("rule", "other", "eager", "fixed", "equal", "equal", State.VERIFIED)
    text = verification.summary((here, records.result(recorded, {"before.py": AFTER})), {}, Paint(on=False))
    assert ["Cases: 1 verified", "Cases of the environment jax: 1 locked"] == text.splitlines()[-3:-1]


def test_pins_of_the_environment_are_part_of_the_digest(recorded: Case, tmp_path: Path) -> None:
    entry = json.loads(JAX.record(tmp_path).read_text())["cases"]["rule/case"]
    other = dataclasses.replace(JAX, packages=("jax",))
    words = Outcome(State.VERIFIED, "equal", "equal: 1 values")
    assert entry["digest"] != records.entry(recorded, {"before.py": AFTER}, other, words)["digest"]
