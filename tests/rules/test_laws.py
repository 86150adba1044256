"""Laws over all rules: names, pages and cases; those over findings are in test_fixtures.py."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

from tpulint.finding import Applicability, Severity
from tpulint.fixture import Case, cases
from tpulint.registry import SYNTAX_ERROR, rules
from tpulint.report.page import text
from tpulint.rules_api import Rule
from tpulint.rules_api.rule import OWN_PREFIXES

if TYPE_CHECKING:
    from tests.rules.conftest import Examined

ROOT = Path(__file__).parents[2]
CASES = cases(ROOT / "fixtures")
EVIDENCE = json.loads((ROOT / "docs" / "data" / "evidence.json").read_text())["cases"]
RULES = rules()
ORDER = {Applicability.SAFE: 2, Applicability.UNSAFE: 1, Applicability.DISPLAY: 0, None: -1}

each_rule = pytest.mark.parametrize(
    "rule",
    [pytest.param(rule, id=rule.code, marks=pytest.mark.xdist_group(rule.folder)) for rule in RULES],
)
Examine: TypeAlias = "Callable[[Case], Examined]"


def source(rule: Rule) -> Path:
    file = sys.modules[rule.module].__file__
    assert file is not None
    return Path(file)


def headings(rule: Rule) -> list[str]:
    return re.findall(r"^(#.*)$", rule.doc, re.MULTILINE)


# names


def test_codes_are_letters_of_tpulint_and_three_digits_and_unique() -> None:
    codes = [rule.code for rule in RULES]
    letters = "|".join(OWN_PREFIXES)
    assert [] == [code for code in codes if not re.fullmatch(rf"({letters})\d{{3}}", code)]
    assert sorted(set(codes)) == codes
    assert SYNTAX_ERROR[0] not in codes


def test_current_and_former_names_are_unique() -> None:
    names = [name for rule in RULES for name in (rule.name, *rule.former)]
    assert sorted(set(names)) == sorted(names)


@each_rule
def test_file_folder_and_rule_name_agree(rule: Rule) -> None:
    assert source(rule).stem == rule.folder == rule.name.replace("-", "_")
    assert source(rule).parent.name == rule.family
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", rule.name)
    assert not rule.name.startswith("no-"), "a name says what is found, not what is wished for"


def test_codes_of_a_family_share_one_hundred_and_no_ten_with_others() -> None:
    families = {rule.family for rule in RULES}
    assert len({(rule.family, rule.code[:-2]) for rule in RULES}) == len(families)
    tens = {(rule.family, rule.code[:-1]) for rule in RULES}
    assert len(tens) == len({ten for _, ten in tens})


def test_the_letters_of_a_code_say_whether_its_rule_is_on_by_default() -> None:
    assert {("UPG", True)} == {(rule.code[:-3], rule.optional) for rule in RULES if rule.optional}
    assert not [rule.code for rule in RULES if rule.code.startswith("UPG") and not rule.optional]


def test_every_module_below_the_rules_holds_a_rule() -> None:
    folder = ROOT / "rules" / "tpulint_rules"
    modules = {p for p in folder.rglob("*.py") if p.name not in ("__init__.py", "codemods.py")}
    assert modules == {source(rule) for rule in RULES if source(rule).is_relative_to(ROOT)}


@each_rule
def test_a_summary_is_lower_case_and_has_no_full_stop(
    rule: Rule, style_faults: Callable[[str], list[str]]
) -> None:
    assert style_faults(rule.summary) == []


# pages


@each_rule
def test_the_headings_of_a_page_stand_in_order(rule: Rule) -> None:
    allowed = ["## What it does", "## Why it matters on TPU", "## Fix safety", "## Without a fix"]
    if rule.optional:
        allowed[1] = "## Why it matters"
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


# cases


def test_every_folder_of_cases_belongs_to_a_rule() -> None:
    folders = {path.name for path in (ROOT / "fixtures").iterdir() if path.is_dir()}
    assert {rule.folder for rule in RULES} | {"programs", "environments"} == folders


@each_rule
def test_every_rule_has_executable_example_and_clean_cases(rule: Rule) -> None:
    own = {case.name: case for case in CASES if case.rule == rule.folder}
    assert {"example", "clean"} <= set(own)
    executable = not rule.part_handlers  # which are about files that are not Python
    assert [executable] * 2 == [own[name].run is not None for name in ("example", "clean")]


@each_rule
def test_the_rule_is_found_in_example_and_not_in_clean(rule: Rule, examined: Examine) -> None:
    own = {case.name: case for case in CASES if case.rule == rule.folder}
    assert rule.code in {finding.code for finding in examined(own["example"]).findings}
    assert rule.code not in {finding.code for finding in examined(own["clean"]).findings}


@each_rule
def test_declared_applicability_is_the_safest_of_the_fixtures(rule: Rule, examined: Examine) -> None:
    own = (finding for case in CASES if case.rule == rule.folder for finding in examined(case).findings)
    fixes = {f.fix.applicability for f in own if f.code == rule.code and f.fix is not None}
    best = max(fixes, key=lambda fix: ORDER[fix], default=None)
    assert rule.fixable == best


# walls


@each_rule
def test_rule_modules_have_no_globals_and_no_classes(rule: Rule) -> None:
    tree = ast.parse(source(rule).read_text())
    assert [] == [node.names for node in ast.walk(tree) if isinstance(node, ast.Global | ast.Nonlocal)]
    assert [] == [node.name for node in tree.body if isinstance(node, ast.ClassDef)]


def test_loading_the_rules_imports_neither_torch_nor_jax() -> None:
    program = (
        "import sys, tpulint.registry as r; r.rules(); print('torch' in sys.modules, 'jax' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert "False False\n" == done.stdout


# severity


def test_originals_whose_findings_do_not_block_run_with_the_same_results(examined: Examine) -> None:
    executed = {(one["rule"], one["case"]): one for one in EVIDENCE if one["state"] == "verified"}
    wrong = []
    for case in CASES:
        outcomes = executed.get((case.folder.parent.name, case.folder.name), {}).get("original", {})
        severities = {finding.severity for finding in examined(case).findings} if outcomes else set()
        if severities and Severity.BLOCKS not in severities:
            words = {outcome.partition(":")[0] for outcome in outcomes.values()}
            wrong += [case.folder] if words - {"runs", "equal", "narrowed", "compiles"} else []
    assert [] == wrong


@each_rule
def test_pages_begin_with_the_severity(rule: Rule) -> None:
    assert f"\nSeverity: {rule.severity} (" in text(rule)
