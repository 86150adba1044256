"""What `fix` says is to be done next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tpulint.finding import Applicability, Finding
from tpulint.knowledge.versions import TESTED
from tpulint.report import next_steps

Make = Callable[..., Finding]
SAFE, UNSAFE, DISPLAY = Applicability.SAFE, Applicability.UNSAFE, Applicability.DISPLAY


def test_a_file_that_is_not_analyzed_is_no_finding_to_explain(make: Make) -> None:
    assert "" == next_steps.render([make(code="TPU000")], changed=False, unsafe_applied=True)


@pytest.mark.parametrize(
    ("fixes", "changed", "unsafe", "expected"),
    [
        ([], False, False, ""),
        ([SAFE], False, True, ""),
        ([None], False, True, "change the other findings by hand (`tpulint explain TPU301` says how)"),
        ([DISPLAY], False, True, "change the other findings by hand (`tpulint explain TPU301` says how)"),
        (
            [UNSAFE],
            False,
            False,
            "read the unsafe fixes with `tpulint fix --unsafe-fixes --diff`, and apply them",
        ),
        ([], True, True, "run the program, and compare its results with those of the original program"),
    ],
)
def test_the_next_steps(
    make: Make, fixes: list[Applicability | None], changed: bool, unsafe: bool, expected: str
) -> None:
    findings = [make(fix=fix) for fix in fixes]
    line = f"Next: {expected}\n" if expected else ""
    assert line == next_steps.render(findings, changed=changed, unsafe_applied=unsafe)


def test_programs_are_installed_and_run(folder: Path) -> None:
    programs = [(folder / "train.py", False), (folder / "ddp.py", True), (folder / "my train.py", False)]
    lines = next_steps.render([], changed=True, unsafe_applied=True, programs=programs).splitlines()
    assert "Next:" == lines[0]
    assert f"torch=={TESTED['torch']} torchvision=={TESTED['torchvision']} --index-url" in lines[2]
    assert lines[3].endswith(f"'jax[tpu]=={TESTED['jax']}' torchax-compat")
    assert "  - run `python train.py`, which uses one chip" in lines
    assert "  - run `python ddp.py`, which uses all chips of the host" in lines
    assert "  - run `python 'my train.py'`, which uses one chip" in lines


def test_a_vendored_runtime_is_not_installed_and_long_lists_are_cut(folder: Path) -> None:
    programs = [(folder / f"train{number}.py", False) for number in range(5)]
    text = next_steps.render([], changed=True, unsafe_applied=True, programs=programs, vendored=True)
    assert "torchax-compat" not in text
    assert "  - run the 2 other programs\n" in text
