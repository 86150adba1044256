"""Laws over what the runtime handles: the table, the rules that use it, and the tests that it names agree."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tpulint.dev import probe_operators
from tpulint.dev.handled_samples import SAMPLES, UNHANDLED, program
from tpulint.engine.run import analyse_units, as_units
from tpulint.knowledge.handled import HANDLED, SAMPLED, TESTS
from tpulint.registry import rules
from tpulint.settings import Settings

ROOT = Path(__file__).parents[2]

each_subject = pytest.mark.parametrize("subject", HANDLED)
each_sampled = pytest.mark.parametrize("subject", SAMPLES)


@cache
def _uses(path: Path) -> tuple[str, ...]:
    """What a module passes to `runtime_handles` or as `handled`, where it is a constant."""
    tree = ast.parse(path.read_text())
    values = [
        *(n.args[0] for n in ast.walk(tree) if isinstance(n, ast.Call) and _is_asked(n.func)),
        *(n.value for n in ast.walk(tree) if isinstance(n, ast.keyword) and n.arg == "handled"),
    ]
    constants: dict[str, object] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                constants[name] = value
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=items)):
                for one, item in zip(names, items, strict=False):
                    if isinstance(one, ast.Name) and isinstance(item, ast.Constant):
                        constants[one.id] = item.value
    found = (constants.get(one.id) if isinstance(one, ast.Name) else one for one in values)
    return tuple(str(one.value if isinstance(one, ast.Constant) else one) for one in found)


def _is_asked(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr == "runtime_handles"


def _rule_files() -> dict[str, Path]:
    folder = ROOT / "rules" / "tpulint_rules"
    return {rule.code: folder / rule.family / f"{rule.folder}.py" for rule in rules()}


def test_rules_name_entries_of_the_table_and_all_of_them() -> None:
    assert {subject for path in _rule_files().values() for subject in _uses(path)} == set(HANDLED)


def test_rules_leave_findings_to_the_runtime_by_the_table_alone() -> None:
    texts = {path.stem: path.read_text() for path in _rule_files().values()}
    asking = {
        name for name, text in texts.items() if re.search(r"\b(uses_runtime|program_uses_runtime)\b", text)
    }
    assert asking == {"missing_compat_runtime"}  # which is about the import itself


@each_subject
def test_tests_that_the_table_names_exist(subject: str) -> None:
    assert HANDLED[subject].tests
    for test in HANDLED[subject].tests:
        assert _source(test)


@cache
def _source(test: str) -> str:
    """The source of a test, with its decorators and the constants that they name."""
    path, name = test.split("::")
    body = ast.parse((ROOT / TESTS / path).read_text()).body
    (found,) = (node for node in body if isinstance(node, ast.FunctionDef) and node.name == name)
    named = {node.id for node in ast.walk(found) if isinstance(node, ast.Name)}
    constants = (node for node in body if isinstance(node, ast.Assign | ast.AnnAssign))
    return "\n".join(ast.unparse(one) for one in (*(c for c in constants if _target(c) in named), found))


def _target(statement: ast.Assign | ast.AnnAssign) -> str:
    return ast.unparse(statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0])


@each_subject
def test_tests_call_each_operator(subject: str) -> None:
    handled = HANDLED[subject]
    code = "\n".join(_source(test) for test in handled.tests if test != SAMPLED)
    probed = {one.name: one.code for one in probe_operators.samples()}
    missing = []
    for operator in handled.operators:
        text = SAMPLES.get(subject, {}).get(operator, code) if SAMPLED in handled.tests else code
        text = probed.get(operator, text) if "IMPLEMENTED" in code else text
        if not re.search(rf"\b{operator.rpartition('.')[2]}\b", text):
            missing.append(operator)
    assert missing == []


def test_subjects_with_samples_are_those_that_the_sampling_test_shows() -> None:
    assert set(SAMPLES) == {subject for subject, handled in HANDLED.items() if SAMPLED in handled.tests}


@pytest.fixture(scope="module")
def findings() -> dict[bool, Counter[tuple[str, str, str]]]:
    """How often each rule reports each sample, without the runtime and with it."""
    samples = {f"{n}": (subject, name) for n, (subject, name) in enumerate(_samples())}
    found: dict[bool, Counter[tuple[str, str, str]]] = {}
    for runtime in (False, True):
        texts = {
            f"program_{number}.py": _program(subject, name, runtime=runtime).encode()
            for number, (subject, name) in samples.items()
        }
        result = analyse_units(as_units(texts), Settings(), jobs=1)
        assert result.errors == []
        found[runtime] = Counter(
            (*samples[one.path.removeprefix("program_").removesuffix(".py")], one.code)
            for one in result.findings
        )
    return found


def _program(subject: str, name: str, *, runtime: bool) -> str:
    gradients = runtime and HANDLED[subject].with_gradients
    return program(SAMPLES[subject][name], runtime=runtime, gradients=gradients)


def _samples() -> list[tuple[str, str]]:
    return [(subject, name) for subject, samples in SAMPLES.items() for name in samples]


@each_sampled
def test_rules_that_use_an_entry_report_each_sample_without_the_runtime(
    subject: str, findings: dict[bool, Counter[tuple[str, str, str]]]
) -> None:
    codes = [code for code, path in _rule_files().items() if subject in _uses(path)]
    silent = [name for name in SAMPLES[subject] if not any(findings[False][subject, name, c] for c in codes)]
    assert silent == []


@each_sampled
def test_rules_that_use_an_entry_report_less_with_the_runtime(
    subject: str, findings: dict[bool, Counter[tuple[str, str, str]]]
) -> None:
    codes = [code for code, path in _rule_files().items() if subject in _uses(path)]
    counts = [
        sum(findings[runtime][subject, name, code] for name in SAMPLES[subject] for code in codes)
        for runtime in (True, False)
    ]
    assert counts[0] < counts[1]


@pytest.mark.parametrize("name", UNHANDLED)
def test_what_the_runtime_does_not_handle_is_reported_with_it(name: str) -> None:
    code, way, body = UNHANDLED[name]
    text = program(body, runtime=True, gradients=True, jitted=way == "jitted")
    result = analyse_units(as_units({"program.py": text.encode()}), Settings(), jobs=1)
    assert code in {finding.code for finding in result.findings}
