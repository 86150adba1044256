"""`python -m tpulint.dev`: its commands print what their modules give, and exit as a shell expects."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import click.testing
import pytest

from tpulint.dev import __main__ as commands
from tpulint.dev import on_gpu, probe_operators, program_times, touched, tpu_costs


def run(*arguments: str) -> tuple[int, str]:
    """The exit code and the output of a command."""
    result = click.testing.CliRunner().invoke(commands.dev, list(arguments))
    return result.exit_code, result.output


def test_new_rule_in_an_unknown_group_is_a_usage_error() -> None:
    code, output = run("new-rule", "nowhere", "odd_call")
    assert code == 2
    assert "there is no group `nowhere`" in output


def test_new_rule_prints_the_files_that_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rules/tpulint_rules/placement").mkdir(parents=True)
    (tmp_path / "rules/tpulint_rules/placement/__init__.py").touch()
    monkeypatch.setattr(commands, "ROOT", tmp_path)
    code, output = run("new-rule", "placement", "odd_call")
    assert code == 0
    assert output.splitlines()[0] == "rules/tpulint_rules/placement/odd_call.py"


def test_tables_of_measurements_are_printed_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_times, "table", lambda _: ["| program |", "| gan |"])
    monkeypatch.setattr(on_gpu, "table", lambda _, programs, jobs: [*programs, str(jobs)])
    monkeypatch.setattr(probe_operators, "write", lambda: ["aten.add"])
    assert run("program-times") == (0, "| program |\n| gan |\n")
    assert run("on-gpu", "gan", "-j", "2") == (0, "gan\n2\n")
    assert run("probe-operators") == (0, "gives something else on torchax: aten.add\n")


def test_costs_for_tpus_are_written_into_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(commands, "ROOT", tmp_path)
    monkeypatch.setattr(tpu_costs, "measure", lambda _: ["compiled: GPT-2"])
    monkeypatch.setattr(tpu_costs, "render", lambda _: "the page")
    assert run("tpu-costs") == (0, "compiled: GPT-2\n")
    assert (tmp_path / "docs/speed.md").read_text() == "the page"


def test_missing_gpu_is_a_one_line_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def table(fixtures: Path, programs: Sequence[str], jobs: int) -> list[str]:
        raise OSError("no GPU here")

    monkeypatch.setattr(on_gpu, "table", table)
    assert run("on-gpu") == (1, "no GPU here\n")


def test_evidence_writes_the_data_and_the_page_of_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs/data").mkdir(parents=True)
    report = tmp_path / "report.json"
    row = {"code": "TPU101", "rule": "cuda_method", "case": "clean", "stage": "eager", "side": "original"}
    report.write_text(json.dumps([{**row, "happened": "equal: 3 operations", "state": "verified"}]))
    monkeypatch.setattr(commands, "ROOT", tmp_path)
    assert run("evidence", str(report)) == (0, "wrote: docs/data/evidence.json\nwrote: docs/evidence.md\n")
    assert "1 of 1 cases are verified" in (tmp_path / "docs/evidence.md").read_text()
    (case,) = json.loads((tmp_path / "docs/data/evidence.json").read_text())["cases"]
    assert case["original"] == {"eager": "equal: 3 operations"}


@pytest.mark.parametrize(("status", "code"), [(0, 0), (5, 0), (1, 1)])
def test_test_change_fails_if_one_of_its_runs_does(
    status: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(touched, "changed", lambda _: ["tpulint/cli.py", "runtime/tests/conftest.py"])
    monkeypatch.setattr(
        subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, status, "", "")
    )
    assert run("test-change") == (code, "pytest tests/cli\npytest runtime/tests\n")


def test_test_change_without_mirroring_tests_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(touched, "changed", lambda _: ["README.md"])
    code, output = run("test-change")
    assert (code, "no unit tests mirror the changed files" in output) == (0, True)


def test_changed_files_are_those_that_git_names_or_of_the_last_commit(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1\n")
        git("add", name)
        git("commit", "-qm", name)
    assert touched.changed(tmp_path) == ["b.py"]
    (tmp_path / "a.py").write_text("x = 2\n")
    (tmp_path / "new.py").touch()
    assert touched.changed(tmp_path) == ["a.py", "new.py"]
    with pytest.raises(OSError, match="git diff"):
        touched.changed(tmp_path.parent)
