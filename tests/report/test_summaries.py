from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tpulint.finding import Applicability, Finding, Severity
from tpulint.report import concise, diff, statistics
from tpulint.report.paint import Paint, paint_for

Make = Callable[..., Finding]
PLAIN = Paint(on=False)
SAFE, UNSAFE, DISPLAY = Applicability.SAFE, Applicability.UNSAFE, Applicability.DISPLAY


@pytest.mark.parametrize(
    ("fixes", "expected"),
    [
        ([], "No findings\n"),
        ([None], "Found 1 finding in 1 file\n"),
        ([DISPLAY, None], "Found 2 findings in 1 file\n"),
        ([SAFE, None], "Found 2 findings in 1 file; 1 fixable with `tpulint fix`\n"),
        (
            [SAFE, UNSAFE, UNSAFE],
            "Found 3 findings in 1 file; 1 fixable with `tpulint fix`, 2 more with `--unsafe-fixes`\n",
        ),
        ([UNSAFE], "Found 1 finding in 1 file; 1 fixable with `tpulint fix --unsafe-fixes`\n"),
    ],
)
def test_summary_line_counts_the_fixable_findings(
    make: Make, fixes: list[Applicability | None], expected: str
) -> None:
    assert expected == statistics.summary([make(fix=fix) for fix in fixes], PLAIN)


def test_summary_says_how_many_files_were_not_analyzed_and_why(make: Make) -> None:
    found = [
        make(path="a.py", code="TPU000"),
        make(path="b.py", code="TPU003"),
        make(path="c.py", code="TPU003"),
        make(path="d.py"),
        make(path="e.ipynb", code="ENV109"),
    ]
    why = "1 with a syntax error, 2 for a framework that does not run on TPU, 1 with the code of a notebook"
    assert f"Not analyzed: 4 files ({why})" == statistics.summary(found, PLAIN).splitlines()[-1]


def test_summary_counts_findings_by_severity_unless_all_block(make: Make) -> None:
    block, slow, cosmetic = (make(severity=severity) for severity in Severity)
    assert "Found 2 findings in 1 file\n" == statistics.summary([block, block], PLAIN)
    assert "Found 3 findings in 1 file (1 blocking, 2 slow)\n" == statistics.summary(
        [make(), slow, slow], PLAIN
    )
    assert "Found 1 finding in 1 file (1 cosmetic)\n" == statistics.summary([cosmetic], PLAIN)
    assert "1  TPU301  [ ] item-in-traced-code (slow)\n" == statistics.render([slow], PLAIN)
    assert "TPU301 item-in-traced-code (slow): `.item()`" in concise.render([slow], PLAIN)


def test_statistics_count_by_rule_and_mark_the_fixable(make: Make) -> None:
    findings = [make(), make(fix=SAFE)] + [make(code="TPU101", fix=SAFE)] * 10 + [make(code="TPU401")]
    expected = [
        "10  TPU101  [*] item-in-traced-code",
        " 2  TPU301  [-] item-in-traced-code",
        " 1  TPU401  [ ] item-in-traced-code",
    ]
    assert expected == statistics.render(findings, PLAIN).splitlines()
    assert json.loads(statistics.render_json(findings))[1] == {
        "code": "TPU301",
        "name": "item-in-traced-code",
        "count": 2,
        "safe": 1,
        "unsafe": 0,
        "display": 0,
        "blocks": 2,
        "slow": 0,
        "cosmetic": 0,
    }


def test_what_was_fixed_is_counted_by_file_and_rule() -> None:
    expected = "Fixed 3 findings in 1 file:\n  a.py: 2 × TPU301 item-in-traced-code, 1 × TPU101\n"
    names = {"TPU301": "item-in-traced-code"}
    assert expected == statistics.applied({"a.py": {"TPU101": 1, "TPU301": 2}}, names, [], [], PLAIN)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\nb", "a\nB"),
        ("a\nb", "a\nb\n"),
        ("a\r\nb\r\n", "a\r\nB\r\n"),
        ("a\x0cb\u2028c\nd\n", "a\x0cb\u2028c\nD\n"),
        ("-- a\n", "++ a\n"),
    ],
)
def test_git_applies_the_rendered_diff(folder: Path, before: str, after: str) -> None:
    (folder / "a b.py").write_bytes(before.encode())
    patch = diff.render(str(folder / "a b.py"), before, after, PLAIN)
    subprocess.run(
        ["git", "apply", "-p0", "--whitespace=nowarn", "-"], input=patch.encode(), check=True, cwd=folder
    )
    assert after.encode() == (folder / "a b.py").read_bytes()


def test_diff_colours_added_and_removed_lines() -> None:
    text = diff.render("a.py", "a\nb\n", "a\nc\n", Paint(on=True))
    assert "\x1b[31m-b\x1b[0m\n\x1b[32m+c\x1b[0m\n" in text


def test_colours_follow_the_terminal_and_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "file").open("w") as stream:
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.delenv("FORCE_COLOR", raising=False)
        assert Paint(on=False) == paint_for(stream, "auto")
        assert Paint(on=True) == paint_for(stream, "always")
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert Paint(on=True) == paint_for(stream, "auto")
        monkeypatch.setenv("NO_COLOR", "1")
        assert Paint(on=False) == paint_for(stream, "auto")
