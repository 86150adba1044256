"""Laws over all rules: names, pages, cases, messages and fixes."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tpulint.dev import render_docs
from tpulint.finding import Applicability, Finding
from tpulint.fixture import Case, cases
from tpulint.registry import SYNTAX_ERROR, rules
from tpulint.rule import Rule
from tpulint.testing import findings

ROOT = Path(__file__).parents[2]
CASES = cases(ROOT / "fixtures")
RULES = rules()
FORBIDDEN = (
    "tpulint.engine",
    "tpulint.cli",
    "tpulint.report",
    "tpulint.registry",
    "tpulint.verify",
    "tpulint_rules",
)
ORDER = {Applicability.SAFE: 2, Applicability.UNSAFE: 1, Applicability.DISPLAY: 0, None: -1}

each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)


def source(rule: Rule) -> Path:
    file = sys.modules[rule.module].__file__
    assert file is not None
    return Path(file)


def headings(rule: Rule) -> list[str]:
    return re.findall(r"^(#.*)$", rule.doc, re.MULTILINE)


@cache
def found_in(folder: Path) -> tuple[Finding, ...]:
    return tuple(findings(next(case for case in CASES if case.folder == folder)))


def found(case: Case) -> tuple[Finding, ...]:
    return found_in(case.folder)


def every_finding() -> list[Finding]:
    return [finding for case in CASES for finding in found(case)]


# names


def test_codes_are_tpu_and_three_digits_and_unique() -> None:
    codes = [rule.code for rule in RULES]
    assert [] == [code for code in codes if not re.fullmatch(r"TPU\d{3}", code)]
    assert sorted(set(codes)) == codes
    assert SYNTAX_ERROR[0] not in codes


def test_names_are_unique() -> None:
    names = [rule.name for rule in RULES]
    assert sorted(set(names)) == sorted(names)


@each_rule
def test_file_folder_and_name_are_one_word(rule: Rule) -> None:
    assert source(rule).stem == rule.folder == rule.name.replace("-", "_")
    assert source(rule).parent.name == rule.family
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", rule.name)
    assert not rule.name.startswith("no-"), "a name says what is found, not what is wished for"


def test_a_family_lies_within_a_hundred_and_shares_no_ten() -> None:
    families = {rule.family for rule in RULES}
    assert len({(rule.family, rule.code[3]) for rule in RULES}) == len(families)
    tens = {(rule.family, rule.code[3:5]) for rule in RULES}
    assert len(tens) == len({ten for _, ten in tens})


def test_every_module_below_the_rules_holds_a_rule() -> None:
    folder = ROOT / "rules" / "tpulint_rules"
    modules = {p for p in folder.rglob("*.py") if p.name != "__init__.py"} - {*folder.glob("companions/**/*")}
    assert modules == {source(rule) for rule in RULES if source(rule).is_relative_to(ROOT)}


@each_rule
def test_a_summary_is_lower_case_and_has_no_full_stop(rule: Rule) -> None:
    assert style_faults(rule.summary) == []


# pages


@each_rule
def test_the_headings_of_a_page_stand_in_order(rule: Rule) -> None:
    allowed = ["## What it does", "## Why it matters on TPU", "## Fix safety", "## Without a fix"]
    wanted = allowed[:2]
    if rule.fixable is not None:
        wanted.append(allowed[2])
    if rule.fixable is None or allowed[3] in headings(rule):
        wanted.append(allowed[3])
    assert wanted == headings(rule)


@each_rule
def test_a_page_begins_with_a_sentence_and_no_section_is_empty(rule: Rule) -> None:
    first, blank, *_ = rule.doc.splitlines()
    assert re.fullmatch(r"[A-Z`].*[^.]\.", first)
    assert "" == blank
    sections = re.split(r"^## .*$", rule.doc, flags=re.MULTILINE)
    assert [] == [section for section in sections if not section.strip()]
    assert "TODO" not in rule.doc


@each_rule
def test_code_in_a_page_is_in_balanced_backticks(rule: Rule) -> None:
    prose = re.sub(r"```.*?```", "", rule.doc, flags=re.DOTALL)
    paragraphs = re.split(r"\n\s*\n", prose)
    assert [] == [text for text in paragraphs if text.count("`") % 2]


def test_pages_are_fresh() -> None:
    assert [] == render_docs.stale(ROOT)


# cases


def test_every_folder_of_cases_belongs_to_a_rule() -> None:
    folders = {path.name for path in (ROOT / "fixtures").iterdir() if path.is_dir()}
    assert {rule.folder for rule in RULES} | {"programs"} == folders


@each_rule
def test_example_and_clean_are_there_with_something_to_run(rule: Rule) -> None:
    own = {case.name: case for case in CASES if case.rule == rule.folder}
    assert {"example", "clean"} <= set(own)
    assert [True, True] == [own[name].run is not None for name in ("example", "clean")]


@each_rule
def test_the_example_shows_the_rule_and_clean_does_not(rule: Rule) -> None:
    own = {case.name: case for case in CASES if case.rule == rule.folder}
    assert rule.code in {finding.code for finding in found(own["example"])}
    assert rule.code not in {finding.code for finding in found(own["clean"])}


@each_rule
def test_a_rule_with_fixes_shows_one(rule: Rule) -> None:
    fixes = {f.fix.applicability for f in every_finding() if f.code == rule.code and f.fix is not None}
    best = max(fixes, key=lambda fix: ORDER[fix], default=None)
    assert rule.fixable == best


# findings


def style_faults(text: str) -> list[str]:
    """What is wrong with a message."""
    faults = []
    if not re.match(r"[a-z`]", text) and not re.match(r"(XLA|JAX|NumPy|Python|TPU|CUDA|TorchScript)\b", text):
        faults.append("begins with neither a small letter nor code")
    if text.endswith((".", "!", ":", " ")):
        faults.append("ends like a sentence")
    if text.count("`") % 2:
        faults.append("has an odd number of backticks")
    if "\n" in text or "  " in text:
        faults.append("is more than one line")
    bare = re.sub(r"`[^`]*`", "", text)
    if re.search(r"\b(torch|jax|torchax)\.\w|\w\(\)|\b[a-z]+_[a-z]+\b", bare):
        faults.append("has code outside of backticks")
    return faults


def test_messages_are_in_style() -> None:
    messages = {(finding.code, finding.message) for finding in every_finding()}
    assert [] == [(*message, faults) for message in sorted(messages) if (faults := style_faults(message[1]))]


def test_titles_of_fixes_are_verb_phrases() -> None:
    titles = {(f.code, f.fix.title) for f in every_finding() if f.fix is not None}
    assert [] == [(*title, faults) for title in sorted(titles) if (faults := style_faults(title[1]))]
    openings = {title.split()[0] for _, title in titles}
    verbs = (
        "add ask choose compare compile copy count create decode divide draw enter go index keep leave make"
        " mark mask move name order pass read reduce remove rename replace resize scale select stay take tell"
        " turn use wait widen write"
    )
    assert set() == openings - set(verbs.split())


def test_steps_of_a_chain_are_in_style() -> None:
    labels = {step.message for finding in every_finding() for step in finding.related}
    assert [] == [(label, faults) for label in sorted(labels) if (faults := style_faults(label))]


def test_no_fix_is_better_than_its_rule_declares() -> None:
    best = {rule.code: ORDER[rule.fixable] for rule in RULES}
    fixes = [(f.code, f.fix.applicability) for f in every_finding() if f.fix is not None]
    assert [] == [fix for fix in fixes if ORDER[fix[1]] > best[fix[0]]]


def test_places_lie_in_the_text_and_the_line_is_the_line() -> None:
    for case in CASES:
        texts = {str(case.folder / relative): text for relative, text in case.before.items()}
        for finding in found(case):
            lines = texts[finding.path].splitlines()
            start, end = finding.location, finding.end_location
            assert lines[start.row - 1] == finding.source_line
            assert (1, 1) <= (start.row, start.column) <= (end.row, end.column)
            assert start.column <= len(finding.source_line) + 1
            assert end.column <= len(lines[end.row - 1]) + 1
            for step in finding.related:
                assert 1 <= step.location.row <= len(texts[step.path].splitlines())


def test_edits_of_a_fix_do_not_overlap() -> None:
    for finding in every_finding():
        if finding.fix is not None:
            edits = sorted(finding.fix.edits)
            assert list(finding.fix.edits) == edits
            assert [] == [pair for pair in pairwise(edits) if pair[0].span.end > pair[1].span.start]


# walls


@each_rule
def test_a_rule_imports_neither_the_machinery_nor_another_rule(rule: Rule) -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(source(rule).read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert 0 == node.level
            imported |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    assert [] == [name for name in sorted(imported) if name.startswith(FORBIDDEN)]


@each_rule
def test_a_rule_holds_no_state(rule: Rule) -> None:
    tree = ast.parse(source(rule).read_text())
    assert [] == [node.names for node in ast.walk(tree) if isinstance(node, ast.Global | ast.Nonlocal)]
    assert [] == [node.name for node in tree.body if isinstance(node, ast.ClassDef)]


def test_loading_the_rules_loads_no_torch() -> None:
    program = (
        "import sys, tpulint.registry as r; r.rules(); print('torch' in sys.modules, 'jax' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert "False False\n" == done.stdout
