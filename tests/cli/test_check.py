from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tpulint.finding import FileError, Finding
from tpulint.settings import Selectors

if TYPE_CHECKING:
    from tests.cli.conftest import Engine, Outcome

Command = Callable[..., "Outcome"]


def test_a_clean_run_exits_0(tpulint: Command, engine: Engine, project: Path) -> None:
    outcome = tpulint("check")
    assert (0, "No findings\n", "") == (outcome.code, outcome.out, outcome.err)
    assert (project / "a.py", project / "b.py") == engine.files
    assert {"jobs": None, "cache": True, "stdin": None} == engine.options


def test_findings_exit_1_unless_exit_zero_is_given(
    tpulint: Command, engine: Engine, finding: Finding
) -> None:
    engine.findings = [finding]
    outcome = tpulint("check", ".")
    assert 1 == outcome.code
    assert outcome.out.startswith("a.py:1:1: TPU301 item-in-traced-code: waits for the device\n")
    assert outcome.out.endswith("Found 1 finding in 1 file; 1 fixable with `tpulint fix --unsafe-fixes`\n")
    assert 0 == tpulint("check", "--exit-zero").code


def test_a_file_error_exits_2_and_findings_are_still_printed(
    tpulint: Command, engine: Engine, finding: Finding, project: Path
) -> None:
    engine.findings = [finding]
    engine.errors = [FileError(str(project / "b.py"), "not text")]
    outcome = tpulint("check", "--exit-zero", "a.py", "b.py", "missing.py")
    assert 2 == outcome.code
    assert "TPU301" in outcome.out
    assert "error: missing.py: no such file or folder\nerror: b.py: not text\n" == outcome.err


def test_no_python_files_exits_0_with_a_note(tpulint: Command, project: Path) -> None:
    (project / "empty").mkdir()
    outcome = tpulint("check", "empty")
    assert (0, "note: no Python files to check (files that Git ignores are skipped)\n") == (
        outcome.code,
        outcome.err,
    )
    assert [] == json.loads(tpulint("check", "empty", "--output-format", "json").out)
    assert "" == tpulint("check", "-q", "empty").err


def test_quiet_leaves_out_the_summary(tpulint: Command, engine: Engine, finding: Finding) -> None:
    assert "" == tpulint("check", "-q").out
    engine.findings = [finding]
    assert "Found" not in tpulint("check", "--quiet").out


def test_an_internal_error_is_one_line_and_exits_2(
    tpulint: Command, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.failure = RuntimeError("one\ntwo")
    outcome = tpulint("check")
    assert (2, "") == (outcome.code, outcome.out)
    assert outcome.err == "error: internal error: RuntimeError: one two (TPULINT_TRACEBACK=1 shows where)\n"
    monkeypatch.setenv("TPULINT_TRACEBACK", "1")
    assert "Traceback" in tpulint("check").err


def test_an_interrupt_is_quiet(tpulint: Command, engine: Engine) -> None:
    engine.failure = KeyboardInterrupt()
    outcome = tpulint("check")
    assert (130, "") == (outcome.code, outcome.out + outcome.err.strip())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "--no-such"), "No such option"),
        (("check", "--output-format", "xml"), "'xml' is not one of"),
        (("check", "-j", "0"), "0 is not in the range"),
        (("check", "--statistics", "--output-format", "sarif"), "--statistics works only with"),
        (("check", "-", "a.py"), "`-` stands alone"),
        (("check", "--stdin-filename", "a.py"), "--stdin-filename goes with `-`"),
        (("check", "--select", "TPU9"), "--select: `TPU9` names no rule"),
        (("check", "--ignore", "TPU301,item"), "--ignore: `item` names no rule"),
        (("check", "--exclude", "[z-a]"), "--exclude: `[z-a]` is not a valid pattern"),
        (("check", "--config", "none.toml"), "none.toml: cannot be read"),
        (("check", "--config", "none.toml", "--isolated"), "exclude each other"),
        (("explain", "item-in-traced"), "did you mean `item-in-traced-code`?"),
        (("explain", "TPU999"), "no rule is called `TPU999`"),
        (("frobnicate",), "No such command"),
    ],
)
def test_bad_usage_exits_2_and_says_why(tpulint: Command, arguments: tuple[str, ...], message: str) -> None:
    outcome = tpulint(*arguments)
    assert (2, "") == (outcome.code, outcome.out)
    assert message in outcome.err


def test_a_broken_pyproject_is_a_one_line_error(tpulint: Command, engine: Engine, project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.tpulint]\nselect = [\n")
    outcome = tpulint("check")
    assert (2, "") == (outcome.code, outcome.out)
    assert outcome.err.startswith(f"error: {project / 'pyproject.toml'}: not valid TOML: ")
    assert 1 == len(outcome.err.splitlines())
    assert () == engine.files
    assert 0 == tpulint("check", "--isolated").code


def test_command_line_options_override_the_file(tpulint: Command, engine: Engine, project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.tpulint]\nselect = ["TPU1"]\nexclude = ["a.py"]\n')
    tpulint("check", "--extend-select", "TPU301, TPU302", "--extend-select", "TPU1", "--ignore", "TPU101")
    assert (project / "b.py",) == engine.files
    assert ("TPU1",) == engine.settings.select
    assert Selectors(None, ("TPU101",), ("TPU301", "TPU302", "TPU1")) == engine.settings.command_line
    tpulint("check", "--select", "ALL", "--exclude", "./b.py")
    assert (project / "a.py",) == engine.files
    assert Selectors(("ALL",)) == engine.settings.command_line


def test_patterns_on_the_command_line_are_relative_to_the_current_folder(
    tpulint: Command, engine: Engine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "pyproject.toml").write_text("[tool.tpulint]\n")
    (project / "pkg" / "gen").mkdir(parents=True)
    (project / "pkg" / "gen" / "c.py").touch()
    monkeypatch.chdir(project / "pkg")
    tpulint("check", "..", "--extend-exclude", "gen/*.py")
    assert (project / "a.py", project / "b.py") == engine.files


def test_force_exclude_applies_to_named_files(tpulint: Command, engine: Engine, project: Path) -> None:
    tpulint("check", "--force-exclude", "--exclude", "a.py", "a.py", "b.py")
    assert (project / "b.py",) == engine.files


def test_jobs_and_no_cache_reach_the_engine(tpulint: Command, engine: Engine) -> None:
    tpulint("check", "-j", "3", "--no-cache")
    assert {"jobs": 3, "cache": False, "stdin": None} == engine.options


def test_standard_input_uses_the_settings_of_stdin_filename(
    tpulint: Command, engine: Engine, project: Path
) -> None:
    (project / "pkg").mkdir()
    (project / "pkg" / "pyproject.toml").write_text("[tool.tpulint]\n")
    tpulint("check", "-", "--stdin-filename", "pkg/x.py", stdin=b"\xffx\r\n")
    assert (str(project / "pkg" / "x.py"), b"\xffx\r\n") == engine.options["stdin"]
    assert project / "pkg" == engine.settings.root
    tpulint("check", "-")
    assert ("-", b"") == engine.options["stdin"]


def test_show_files_lists_and_checks_nothing(tpulint: Command, engine: Engine, project: Path) -> None:
    outcome = tpulint("check", "--show-files")
    assert (0, f"{project / 'a.py'}\n{project / 'b.py'}\n") == (outcome.code, outcome.out)
    assert () == engine.files


def test_a_report_can_go_to_a_file(tpulint: Command, engine: Engine, finding: Finding, project: Path) -> None:
    engine.findings = [finding]
    outcome = tpulint("check", "--output-format", "json", "--output-file", "report.json")
    assert (1, "") == (outcome.code, outcome.out)
    assert "TPU301" == json.loads((project / "report.json").read_text())[0]["code"]
    outcome = tpulint("check", "-o", "missing/report.txt")
    assert (2, "error: missing/report.txt: cannot be written: No such file or directory\n") == (
        outcome.code,
        outcome.err,
    )


@pytest.mark.parametrize("form", ["full", "concise", "json", "github", "sarif"])
def test_every_output_format_contains_the_finding(
    tpulint: Command, engine: Engine, finding: Finding, form: str
) -> None:
    engine.findings = [finding]
    outcome = tpulint("check", "--output-format", form)
    assert 1 == outcome.code
    assert "TPU301" in outcome.out
    assert "waits for the device" in outcome.out
    assert "" == outcome.err


def test_statistics_replace_the_findings(tpulint: Command, engine: Engine, finding: Finding) -> None:
    engine.findings = [finding, finding]
    outcome = tpulint("check", "--statistics", "--quiet")
    row = "2  TPU301  [-] item-in-traced-code\n"
    assert (1, row) == (outcome.code, outcome.out)
    full = tpulint("check", "--statistics").out
    assert full.startswith(
        f"{row}[*] all have a safe fix, [-] some have a fix, [ ] none has a fix\nFound 2 findings"
    )
    counts: list[dict[str, Any]] = json.loads(tpulint("check", "--statistics", "--output-format", "json").out)
    assert [("TPU301", 2)] == [(row["code"], row["count"]) for row in counts]


def test_output_is_coloured_only_on_request(tpulint: Command, engine: Engine, finding: Finding) -> None:
    engine.findings = [finding]
    assert "\x1b[" not in tpulint("check").out
    assert "\x1b[" in tpulint("check", "--color", "always").out


def test_another_target_is_passed_on_with_a_note_of_the_rules_that_are_not_used(
    tpulint: Command, engine: Engine
) -> None:
    outcome = tpulint("check", "--target", "torch_xla")
    assert outcome.code == 0
    assert engine.settings.target == "torch_xla"
    assert "rules are for the target torch_xla; what the others find" in outcome.err
    assert "" == tpulint("check", "--target", "torch_xla", "--quiet").err


def test_keep_gpu_goes_with_torchax_only(tpulint: Command) -> None:
    outcome = tpulint("check", "--target", "torchtpu", "--keep-gpu")
    assert outcome.code == 2
    assert "keep-gpu goes with the target torchax, not with torchtpu" in outcome.err
