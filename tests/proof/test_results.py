from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tpulint.proof.results import Compiled, Memory, Report, State, Trace, Verification, as_json, exit_code

PAGE = Path(__file__).parents[2] / "docs" / "verifying.md"


def verification(state: State, *compiled: Compiled, compiled_only: bool = False) -> Verification:
    return Verification("a.py", "program", state, compiled=compiled, is_compiled_only=compiled_only)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], 2),
        ([verification(State.SAME)], 0),
        ([verification(State.SAME), verification(State.NOT_RUN)], 2),
        ([verification(State.NOT_RUN), verification(State.DIFFERS)], 1),
        ([verification(State.SAME, Compiled("v5e", "compiles", fits=True))], 0),
        ([verification(State.SAME, Compiled("v5e", "compiles", fits=False))], 1),
        ([verification(State.SAME, Compiled("v5e", "fails"))], 1),
        ([verification(State.SAME, Compiled("v5e", "not run"))], 2),
        ([verification(State.NOT_RUN, Compiled("v5e", "compiles"), compiled_only=True)], 0),
        ([verification(State.NOT_RUN, Compiled("v5e", "not run"), compiled_only=True)], 2),
    ],
)
def test_nothing_executed_is_never_green(found: list[Verification], expected: int) -> None:
    assert expected == exit_code(found)


def test_json_has_what_the_page_describes() -> None:
    memory = Memory(arguments=10, outputs=4, aliased=3, temporary=2, code=1, kept=5)
    report = Report("cpu", {}, (verification(State.SAME, Compiled("v5e", "compiles", memory=memory)),))
    document = json.loads(json.dumps(as_json(report)))
    assert 19 == document["verifications"][0]["compiled"][0]["memory"]["total"]
    page = PAGE.read_text(encoding="utf-8")
    for value in (Verification, Compiled, Trace, Report):
        names = [field.name for field in dataclasses.fields(value)]
        assert [] == [name for name in names if f"`{name}`" not in page]
