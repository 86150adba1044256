"""Laws over all fixed files: they read as if their authors had written them."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tpulint.fixture import Case, cases, strip_wants

ROOT = Path(__file__).parents[2]
CASES = [case for case in cases(ROOT / "fixtures") if case.after is not None and case.has_code]
#: Where the author has statements between imports, and a fix has to put some of its own there.
IMPORTS_APART = {"missing_torchax_environment/import_puts_tensors_on_device"}


def _pairs(case: Case) -> Iterator[tuple[str, str, str]]:
    assert case.after is not None
    for relative, text in case.after.items():
        yield relative, strip_wants(case.before.get(relative, ""), relative), text


def _complaints(folder: Path) -> Counter[tuple[str, str]]:
    """What ruff says of files: how often each code comes in each file."""
    rules = "F,E7,E9,I001"
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--exit-zero", "--select", rules]
    command += ["--line-length", "110"]  # that of the project which the fixtures are in
    found = subprocess.run(
        [*command, "--output-format", "json", str(folder)], capture_output=True, text=True, check=True
    )
    return Counter(
        (Path(one["filename"]).relative_to(folder.resolve()).as_posix(), one["code"])
        for one in json.loads(found.stdout)
    )


def test_linters_find_nothing_new_in_fixed_files(tmp_path: Path) -> None:
    for case in CASES:
        for relative, before, after in _pairs(case):
            for side, text in (("before", before), ("after", after)):
                path = tmp_path / side / case.rule / case.name / relative
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
    former, fixed = (_complaints(tmp_path / side) for side in ("before", "after"))
    new = {
        (name, code)
        for (name, code), count in fixed.items()
        if count > former[name, code]
        # Where the author has two statements on a line, a fix may put a third beside them.
        and not (code == "E702" and former[name, code])
        and not (code == "I001" and name.rpartition("/")[0] in IMPORTS_APART)
    }
    assert set() == new
    assert fixed


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.name}")
def test_no_condition_of_a_fixed_file_holds_nothing_but_pass(case: Case) -> None:
    for _, before, after in _pairs(case):
        assert _empty(after) <= _empty(before)


def _empty(text: str) -> int:
    blocks = (
        block
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.If)
        for block in (node.body, node.orelse)
    )
    return sum(len(block) == 1 and isinstance(block[0], ast.Pass) for block in blocks)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.name}")
def test_no_fixed_file_assigns_a_name_to_itself_or_chooses_between_equals(case: Case) -> None:
    for _, before, after in _pairs(case):
        assert _idle(after) <= _idle(before)


def _idle(text: str) -> int:
    count = 0
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=given)):
                count += name == given
            case ast.IfExp(body=body, orelse=orelse):
                count += ast.dump(body) == ast.dump(orelse)
    return count
