"""The work of judging a file grows with its size, not with its square."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import FrameType

import pytest

from tpulint.engine.run import analyse_units, as_units
from tpulint.fixture import Case, cases, strip_wants

ROOT = Path(__file__).parents[2]
#: Each of its fixes takes in all uses of a name in the file, and here all have the same one.
SAME_NAME = "parallel_wrapper"
EXAMPLES = [
    case
    for case in cases(ROOT / "fixtures")
    if len(case.before) == 1 and case.has_code and case.name == "example" and case.rule != SAME_NAME
]


def copies(text: str, count: int) -> str:
    """A program in which the code of another one stands often, each time in a function of its own."""
    tree = ast.parse(text)
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    rest = [node for node in tree.body if node not in imports]
    body = "\n".join(f"    {line}" for node in rest for line in ast.unparse(node).splitlines())
    functions = [f"def copy_{number}():\n{body or '    pass'}\n" for number in range(count)]
    return "\n".join([*map(ast.unparse, imports), *functions])


def work(case: Case, text: str) -> int:
    """How many Python functions are called to judge a file, which is the same each time."""
    units = as_units({"/project/main.py": text.encode()})
    called = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal called
        called += event == "call"

    sys.setprofile(count)
    try:
        analysis = analyse_units(units, case.settings, jobs=1)
    finally:
        sys.setprofile(None)
    assert analysis.errors == []
    return called


@pytest.mark.parametrize("case", EXAMPLES, ids=lambda case: case.rule)
def test_work_grows_linearly_with_the_code(case: Case) -> None:
    (text,) = case.before.values()
    small, large = (work(case, copies(strip_wants(text), count)) for count in (8, 32))
    assert large <= 5 * small
