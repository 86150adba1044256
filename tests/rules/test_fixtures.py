"""Every fixture case: the findings that it wants and no others, and exactly the fix that it shows."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from tpulint.fixture import Case, cases, strip_wants
from tpulint.testing import fixed, unmet

CASES = cases(Path(__file__).parents[2] / "fixtures")
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.name}")
#: Programs are as users write them, without comments that name the findings.
RULE_CASES = [case for case in CASES if case.rule != "programs"]


@pytest.mark.parametrize("case", RULE_CASES, ids=lambda case: f"{case.rule}-{case.name}")
def test_findings_are_exactly_the_wanted_ones(case: Case) -> None:
    missing, unwanted = unmet(case)
    assert missing == []
    assert [f"{f.location.row}: {f.code} {f.message}" for f in unwanted] == []


@each_case
def test_fix_gives_what_the_case_shows(case: Case) -> None:
    before = {path: strip_wants(text) for path, text in case.before.items()}
    assert fixed(case) == dict(case.after or before)


@each_case
def test_fixed_files_parse_and_a_second_fix_changes_nothing(case: Case) -> None:
    once = fixed(case)
    for text in once.values():
        ast.parse(text)
    assert fixed(replace(case, before=once)) == once


@each_case
def test_fix_that_keeps_cuda_settles_in_files_that_parse(case: Case) -> None:
    for text in fixed(case, settings=replace(case.settings, keep_gpu=True)).values():
        ast.parse(text)
