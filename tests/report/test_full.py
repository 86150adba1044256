from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tpulint.finding import Applicability, Finding
from tpulint.report.concise import render as concise
from tpulint.report.excerpt import WIDTH, excerpt
from tpulint.report.full import render
from tpulint.report.paint import Paint

Make = Callable[..., Finding]
PLAIN = Paint(on=False)


def test_a_finding_shows_its_line_a_caret_the_fix_and_the_chain(make: Make) -> None:
    finding = make(
        fix=Applicability.SAFE, related=((40, 1, "jitted here"), (11, 5, "`forward` calls `step`"))
    )
    expected = """\
        pkg/model.py:12:9: TPU301 item-in-traced-code: `.item()` waits for the device
           |
        12 |     x = y.item()
           |         ^^^^^^^^
           = help: keep the tensor (safe fix)
           = note: 1. pkg/model.py:40:1: jitted here
           = note: 2. pkg/model.py:11:5: `forward` calls `step`

        """
    assert textwrap.dedent(expected) == render([finding], PLAIN)


@pytest.mark.parametrize(
    ("applicability", "expected"),
    [
        (Applicability.UNSAFE, "= help: keep the tensor (unsafe fix: `--unsafe-fixes`)"),
        (Applicability.DISPLAY, "= help: keep the tensor (shown only)"),
    ],
)
def test_report_shows_the_applicability_of_a_fix(
    make: Make, applicability: Applicability, expected: str
) -> None:
    assert expected in render([make(fix=applicability)], PLAIN)


def test_a_finding_over_several_lines_is_underlined_to_the_end_of_the_first(make: Make) -> None:
    report = render([make("y = torch.where(a,  ", (3, 5), (5, 2))], PLAIN)
    assert "3 | y = torch.where(a,\n  |     ^^^^^^^^^^^^^^\n" in report


def test_a_file_outside_the_current_folder_has_its_full_path(make: Make) -> None:
    finding = make(path="/elsewhere/a.py")
    assert render([finding], PLAIN).startswith("/elsewhere/a.py:12:9: ")


def test_control_characters_in_a_path_do_not_reach_the_terminal(make: Make, folder: Path) -> None:
    assert concise([make(path="a\x1b[31m.py")], PLAIN).startswith(r"a\x1b[31m.py:12:9: ")


def test_colours_change_nothing_but_the_colour(make: Make) -> None:
    import re

    finding = make(fix=Applicability.SAFE, related=((40, 1, "jitted here"),))
    coloured = render([finding], Paint(on=True))
    assert "\x1b[" in coloured
    assert render([finding], PLAIN) == re.sub(r"\x1b\[[\d;]*m", "", coloured)


def test_concise_is_one_line_with_a_mark_for_a_fix(make: Make) -> None:
    findings = [make(), make(fix=Applicability.SAFE), make(fix=Applicability.UNSAFE)]
    line = "pkg/model.py:12:9: TPU301 item-in-traced-code: `.item()` waits for the device"
    assert f"{line}\n{line} [fix]\n{line} [unsafe fix]\n" == concise(findings, PLAIN)


@pytest.mark.parametrize(
    ("line", "columns", "shown", "underline"),
    [
        ("\tx = y.item()", (6, 14), "    x = y.item()", "        ^^^^^^^^"),
        ("a\tb", (3, 4), "a   b", "    ^"),
        ("f('图像', y)", (9, 10), "f('图像', y)", "          ^"),
        ("图像 = y", (1, 3), "图像 = y", "^^^^"),
        ("e\u0301 = y", (6, 7), "e\u0301 = y", "    ^"),
        ("x = '\x1b[31m'", (1, 2), "x = '␛[31m'", "^"),
        ("x = '\u202e'", (1, 2), "x = '\ufffd'", "^"),
        ("x", (2, 2), "x", " ^"),
        ("x", (9, 12), "x", " ^"),
        ("", (1, 1), "", "^"),
    ],
)
def test_caret_is_below_the_reported_column(
    line: str, columns: tuple[int, int], shown: str, underline: str
) -> None:
    view = excerpt(line, *columns)
    assert (shown, underline) == (view.line, view.underline)


@pytest.mark.parametrize("filler", ["x", "图", "\t", "e\u0301"])
@pytest.mark.parametrize("before", [0, 1, 79, 120, 1000, 100_000])
@pytest.mark.parametrize("after", [0, 100, 100_000])
def test_a_long_line_is_cropped_around_the_reported_column(filler: str, before: int, after: int) -> None:
    column = len(filler * before) + 1
    view = excerpt(filler * before + "@" + filler * after, column, column + 1)
    assert "@" in view.line
    cells = "".join(character * (2 if character == "图" else 1) for character in view.line)
    cells = cells.replace("\u0301", "")
    assert "@" == cells[len(view.underline) - 1]
    assert "^" == view.underline.strip()
    assert len(cells) <= WIDTH + 4


def test_an_underline_ends_where_the_cropped_line_does() -> None:
    view = excerpt("x = [" + "1, " * 1000 + "]", 5, 3007)
    assert len(view.line) - 1 == len(view.underline)
    assert view.line.endswith("…")
