from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tpulint.finding import FileError, Finding

if TYPE_CHECKING:
    from tests.cli.conftest import Engine, Outcome

Command = Callable[..., "Outcome"]


def changes(engine: Engine, *paths: Path) -> None:
    from tests.cli.conftest import FakeChange

    engine.changes = [FakeChange(str(path)) for path in paths]


def test_fixed_and_remaining_findings_are_printed(
    tpulint: Command, engine: Engine, finding: Finding, project: Path
) -> None:
    changes(engine, project / "a.py", project / "b.py")
    engine.applied = {str(project / "a.py"): {"TPU101": 3, "TPU301": 1}, str(project / "b.py"): {"TPU301": 1}}
    engine.findings = [finding]
    outcome = tpulint("fix")
    assert 1 == outcome.code
    first = "a.py: 3 × TPU101 hardcoded-cuda-device, 1 × TPU301 item-in-traced-code"
    second = "b.py: 1 × TPU301 item-in-traced-code"
    assert outcome.out.startswith(f"Fixed 5 findings in 2 files:\n  {first}\n  {second}\n")
    assert "a.py:1:1: TPU301" in outcome.out
    *_, summary, title, following, last = outcome.out.splitlines()
    assert summary.endswith("1 fixable with `tpulint fix --unsafe-fixes`")
    assert "Next:" == title
    assert following.startswith("  - read the unsafe fixes with `tpulint fix --unsafe-fixes --diff`")
    assert "  - run the program, and compare its results with those of the original program" == last
    assert [True, True] == [change.written for change in engine.changes]
    assert {
        "jobs": None,
        "cache": True,
        "unsafe": False,
        "stdin": None,
        "named": frozenset({str(project)}),
        "left_out": frozenset(),
    } == engine.options


def test_files_with_tests_that_were_left_are_named(tpulint: Command, engine: Engine, project: Path) -> None:
    engine.tests = (str(project / "tests" / "test_a.py"),)
    told = tpulint("fix").out.splitlines()
    place = Path("tests") / "test_a.py"
    assert f"Left 1 file with tests unchanged ({place}); `--include-tests` fixes them, too" == told[0]


def test_after_all_fixes_the_program_is_to_be_run(tpulint: Command, engine: Engine, project: Path) -> None:
    changes(engine, project / "a.py")
    engine.applied = {str(project / "a.py"): {"TPU101": 1}}
    expected = "Next: run the program, and compare its results with those of the original program"
    assert expected == tpulint("fix", "--unsafe-fixes").out.splitlines()[-1]


def test_no_remaining_findings_exits_0(tpulint: Command, engine: Engine, project: Path) -> None:
    changes(engine, project / "a.py")
    engine.applied = {str(project / "a.py"): {"TPU101": 1}}
    assert 0 == tpulint("fix", "--unsafe-fixes").code
    assert engine.options["unsafe"] is True


def test_exit_zero_does_not_apply_to_errors(tpulint: Command, engine: Engine, finding: Finding) -> None:
    engine.findings = [finding]
    assert 0 == tpulint("fix", "--exit-zero").code
    engine.errors = [FileError("b.py", "not text")]
    assert 2 == tpulint("fix", "--exit-zero").code


def test_a_diff_writes_nothing_and_exits_1(tpulint: Command, engine: Engine, project: Path) -> None:
    changes(engine, project / "a.py")
    outcome = tpulint("fix", "--diff")
    assert (1, "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-a\n+b\n") == (outcome.code, outcome.out)
    assert [False] == [change.written for change in engine.changes]


def test_an_empty_diff_exits_0_even_with_findings(tpulint: Command, engine: Engine, finding: Finding) -> None:
    engine.findings = [finding]
    outcome = tpulint("fix", "--diff")
    assert (0, "") == (outcome.code, outcome.out)
    assert outcome.err.startswith("note: 1 finding would remain")
    assert "" == tpulint("fix", "--diff", "--quiet").err


def test_an_unwritable_file_is_an_error_and_the_rest_is_written(
    tpulint: Command, engine: Engine, project: Path
) -> None:
    changes(engine, project / "a.py", project / "b.py")
    engine.changes[0].error = PermissionError(13, "Permission denied")
    outcome = tpulint("fix")
    assert (2, "error: a.py: cannot be written: Permission denied\n") == (outcome.code, outcome.err)
    assert [False, True] == [change.written for change in engine.changes]


def test_fixed_standard_input_goes_to_stdout_and_the_report_to_stderr(
    tpulint: Command, engine: Engine, finding: Finding
) -> None:
    changes(engine, Path("-"))
    engine.findings = [finding]
    outcome = tpulint("fix", "-", stdin=b"a\n")
    assert (1, "b\n") == (outcome.code, outcome.out)
    assert "TPU301" in outcome.err


def test_standard_input_that_cannot_be_fixed_is_printed_unchanged(tpulint: Command, engine: Engine) -> None:
    engine.errors = [FileError("-", "not text")]
    outcome = tpulint("fix", "-", "-q", stdin=b"a\r\n")
    assert (2, "a\r\n", "error: -: not text\n") == (outcome.code, outcome.out, outcome.err)


def test_no_python_files_exits_0(tpulint: Command, project: Path) -> None:
    (project / "empty").mkdir()
    assert 0 == tpulint("fix", "empty").code
