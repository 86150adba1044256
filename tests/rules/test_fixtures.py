"""Every fixture case: the findings that it wants and no others, in style, and the fix that it shows."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

from tpulint.engine.project_files import applied_to
from tpulint.finding import Applicability, Fix
from tpulint.fixture import Case, cases, strip_wants
from tpulint.project_files.kinds import kind_of
from tpulint.registry import rules
from tpulint.rewrite.apply import File
from tpulint.rewrite.render import Rendering
from tpulint.settings import TARGETS
from tpulint.source import Source
from tpulint.testing import fixed, unmet

if TYPE_CHECKING:
    from tests.rules.conftest import Examined

CASES = cases(Path(__file__).parents[2] / "fixtures")
BEST = {rule.code: rule.fixable for rule in rules()}
ORDER = {Applicability.SAFE: 2, Applicability.UNSAFE: 1, Applicability.DISPLAY: 0, None: -1}
#: How the title of a fix may begin.
VERBS = frozenset(
    [
        "add",
        "ask",
        "assign",
        "call",
        "choose",
        "combine",
        "compare",
        "compile",
        "compute",
        "copy",
        "count",
        "create",
        "decode",
        "decorate",
        "divide",
        "draw",
        "enable",
        "enter",
        "find",
        "format",
        "go",
        "index",
        "keep",
        "leave",
        "list",
        "loop",
        "make",
        "mark",
        "mask",
        "move",
        "name",
        "order",
        "pad",
        "pass",
        "put",
        "read",
        "reduce",
        "register",
        "remove",
        "rename",
        "replace",
        "store",
        "resize",
        "scale",
        "select",
        "set",
        "stay",
        "take",
        "tell",
        "turn",
        "use",
        "wait",
        "widen",
        "write",
    ]
)

PARAMETERS = [
    pytest.param(case, id=f"{case.rule}-{case.name}", marks=pytest.mark.xdist_group(case.rule))
    for case in CASES
]
each_case = pytest.mark.parametrize("case", PARAMETERS)
#: Programs are as users write them, without comments that name the findings.
each_rules_case = pytest.mark.parametrize(
    "case", [one for one, case in zip(PARAMETERS, CASES, strict=True) if case.rule != "programs"]
)
Examine: TypeAlias = "Callable[[Case], Examined]"
StyleFaults: TypeAlias = Callable[[str], list[str]]


@each_rules_case
def test_findings_are_exactly_the_wanted_ones(case: Case, examined: Examine) -> None:
    missing, unwanted = unmet(case, examined(case).findings)
    assert missing == []
    assert [f"{f.location.row}: {f.code} {f.message}" for f in unwanted] == []


@each_case
def test_messages_titles_and_chains_are_in_style(
    case: Case, examined: Examine, style_faults: StyleFaults
) -> None:
    found = examined(case).findings
    texts = {finding.message for finding in found} | {step.message for f in found for step in f.related}
    titles = {finding.fix.title for finding in found if finding.fix is not None}
    assert [(text, faults) for text in sorted(texts | titles) if (faults := style_faults(text))] == []
    assert {title.split()[0] for title in titles} - VERBS == set()


@each_case
def test_findings_are_within_the_text(case: Case, examined: Examine) -> None:
    texts = {str(case.folder / relative): text for relative, text in case.before.items()}
    for finding in examined(case).findings:
        lines = texts[finding.path].splitlines()
        start, end = finding.location, finding.end_location
        assert lines[start.row - 1] == finding.source_line
        assert (1, 1) <= (start.row, start.column) <= (end.row, end.column)
        assert start.column <= len(finding.source_line) + 1
        assert end.column <= len(lines[end.row - 1]) + 1
        for step in finding.related:
            assert 1 <= step.location.row <= len(texts[step.path].splitlines())


@each_case
def test_each_fix_alone_can_be_carried_out_and_rendered_as_edits(case: Case, examined: Examine) -> None:
    texts = {str(case.folder / relative): text for relative, text in case.before.items()}
    fixes: dict[str, dict[Fix, None]] = {}
    for finding in examined(case).findings:
        if finding.fix is not None:
            fixes.setdefault(finding.path, {})[finding.fix] = None
    for path, given in fixes.items():
        source = Source(path, texts[path])
        if not path.endswith(".py"):
            assert [applied_to(texts[path], [fix])[1] for fix in given] == [[fix] for fix in given]
            continue
        file, rendering = File(source, given), Rendering(source, list(given))
        for fix in given:
            text, applied = file.apply([fix])
            assert applied == (fix,)
            edits = list(rendering.edits(fix))
            assert edits == sorted(edits)
            assert [pair for pair in pairwise(edits) if pair[0].span.end > pair[1].span.start] == []
            edited = texts[path]
            for edit in reversed(edits):
                edited = edited[: edit.span.start] + edit.content + edited[edit.span.end :]
            assert edited == text


@each_case
def test_no_fix_is_safer_than_its_rule_declares(case: Case, examined: Examine) -> None:
    fixes = [(f.code, f.fix.applicability) for f in examined(case).findings if f.fix is not None]
    assert [fix for fix in fixes if ORDER[fix[1]] > ORDER[BEST[fix[0]]]] == []


@each_case
def test_fixed_files_equal_those_of_the_case(case: Case, examined: Examine) -> None:
    before = {path: strip_wants(text, path) for path, text in case.before.items()}
    assert examined(case).fixed == dict(case.after or before)


def parse(path: str, text: str) -> None:
    if path.endswith(".py"):
        ast.parse(text)
    else:
        assert kind_of(path) is not None


@each_case
def test_fixed_files_parse_and_a_second_fix_changes_nothing(case: Case, examined: Examine) -> None:
    once = examined(case).fixed
    for path, text in once.items():
        parse(path, text)
    assert fixed(replace(case, before=once), cache=examined(case).cache) == once


@each_case
def test_fix_with_keep_gpu_gives_files_that_parse(case: Case, examined: Examine) -> None:
    settings = replace(case.settings, keep_gpu=True, target=TARGETS[0])  # it goes with no other one
    for path, text in fixed(case, settings=settings, cache=examined(case).cache).items():
        parse(path, text)
