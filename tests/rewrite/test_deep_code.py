"""Statements that are nested too deep for LibCST are not rewritten; others in their file are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from tests.rewriting import applied, planned
from tpulint.engine.cache import MemoryCache
from tpulint.engine.edits import edits_of
from tpulint.engine.fix import fix_units
from tpulint.engine.run import analyse_units, as_units
from tpulint.finding import Applicability, Fix
from tpulint.plan import Kind, Rewrite
from tpulint.rewrite.apply import File
from tpulint.rewrite.depth import MAX_DEPTH
from tpulint.rewrite.tree import RefusedError
from tpulint.settings import Settings
from tpulint.source import Source

SHAPES: dict[str, Callable[[int], str]] = {
    "sum": lambda count: " + ".join(["a"] * count),
    "and": lambda count: " and ".join(["a"] * count),
    "attributes": lambda count: "a" + ".b" * count,
    "calls": lambda count: "a" + "()" * count,
    "subscripts": lambda count: "a" + "[0]" * count,
    "not": lambda count: "not " * count + "a",
    "choices": lambda count: "a if b else " * count + "c",
}
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
CUDA = 'import torch\n\nx = torch.zeros(2, device="cuda")\n'


def deep(shape: Callable[[int], str], count: int) -> Source:
    return Source("file.py", f"x = {shape(count)}\ny = z\n")


@each_shape
def test_code_up_to_the_limit_is_rewritten(shape: Callable[[int], str]) -> None:
    source = deep(shape, MAX_DEPTH - 10)
    expected = source.text.replace("z", "new")
    assert expected == applied(source, planned(source, "z", Kind.REPLACE, "new"))


def test_code_up_to_the_limit_is_rewritten_on_a_thread() -> None:
    source = deep(SHAPES["and"], MAX_DEPTH - 10)
    made: list[str] = []
    thread = Thread(target=lambda: made.append(applied(source, planned(source, "z", Kind.REPLACE, "new"))))
    thread.start()
    thread.join()
    assert [source.text.replace("z", "new")] == made


@each_shape
@pytest.mark.parametrize("count", [MAX_DEPTH + 1, 2 * MAX_DEPTH])
def test_deeper_code_is_refused_before_libcst_reads_it(shape: Callable[[int], str], count: int) -> None:
    source = deep(shape, count)
    within = Rewrite((("body", 0), ("targets", 0)), Kind.RENAME, ("y",))
    with pytest.raises(RefusedError, match=f"nested more than {MAX_DEPTH} levels deep"):
        File(source, [Fix("rename it", (within,), Applicability.SAFE)])


@each_shape
@pytest.mark.parametrize("count", [MAX_DEPTH + 1, 2 * MAX_DEPTH])
def test_code_beside_deeper_code_is_rewritten(shape: Callable[[int], str], count: int) -> None:
    source = deep(shape, count)
    expected = source.text.replace("z", "new")
    assert expected == applied(source, planned(source, "z", Kind.REPLACE, "new"))


def test_python_refuses_nested_parentheses_first() -> None:
    with pytest.raises(SyntaxError, match="too many nested parentheses"):
        File(Source("file.py", f"x = {'(' * 3000}a{')' * 3000}\n"), [])


def test_a_file_stays_if_deep_code_would_change_and_others_are_fixed(tmp_path: Path) -> None:
    deep_file, other = str(tmp_path / "deep.py"), str(tmp_path / "other.py")
    text = f"import torch\n\nx = torch.zeros(2, device='cuda') + {SHAPES['sum'](900)}\n"
    units = as_units({deep_file: text.encode(), other: CUDA.encode()})
    result = fix_units(units, Settings(root=tmp_path), jobs=1, cache=MemoryCache(), unsafe=True)
    message = f"cannot be fixed: the code to change is nested more than {MAX_DEPTH} levels deep"
    assert [(deep_file, message)] == [(error.path, error.message) for error in result.errors]
    assert other in [change.path for change in result.changes]
    assert deep_file not in [change.path for change in result.changes]
    assert deep_file in [finding.path for finding in result.remaining]


def test_reports_have_no_edits_for_a_file_with_deep_code(tmp_path: Path) -> None:
    deep_file, other = str(tmp_path / "deep.py"), str(tmp_path / "other.py")
    contents = {deep_file: f"{CUDA.strip()}{'.a' * 900}\n".encode(), other: CUDA.encode()}
    findings = analyse_units(as_units(contents), Settings(root=tmp_path), jobs=1).findings
    assert {deep_file, other} == {finding.path for finding in findings if finding.fix is not None}
    assert {other} == {path for path, _ in edits_of(findings, contents)}
