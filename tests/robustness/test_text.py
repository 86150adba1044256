"""Encodings, line endings and odd characters: places are counted in characters, fixes touch nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.robustness.conftest import Command

OPTIONS = ("--select", "TPU101", "--output-format", "json")
HEAD = b"import torch\n"
CALL = b"torch.zeros(2).cuda()"

#: Bytes of a file, and where its findings are.
TEXTS: dict[str, tuple[bytes, list[tuple[int, int]]]] = {
    "no_final_newline": (HEAD + b"x = " + CALL, [(2, 5)]),
    "crlf": (b"import torch\r\n\r\nx = " + CALL + b"\r\n", [(3, 5)]),
    "cr_only": (b"import torch\r\rx = " + CALL + b"\r", [(3, 5)]),
    "mixed": (
        b"import torch\r\n\nx = " + CALL + b"\ry = x.cuda()\r\n\r\n\n\rz = y.cuda()",
        [(3, 5), (4, 5), (8, 5)],
    ),
    "tabs": (HEAD + b"def f():\n\tx = " + CALL + b"\t# a\tb\n\treturn x\n", [(3, 6)]),
    "form_feeds": (
        HEAD + b"\x0cx = " + CALL + b"\n\x0c\ny = x.cuda(); z = '\x0c'; z = x.cuda()\n",
        [(2, 6), (4, 5), (4, 28)],
    ),
    "vertical_tab_in_a_text": (HEAD + b"x = '\x0b\x1c\x1d'.strip(); y = " + CALL, [(2, 24)]),
    "line_separators": (HEAD + "x = '\u2028\u2029\x85'; y = ".encode() + CALL + b"\n", [(2, 16)]),
    "emoji": (HEAD + "ñ = '🙂é'; x = ".encode() + CALL + "  # 🙂\n".encode(), [(2, 15)]),
    "combining": (HEAD + "s = 'e\u0301'; x = ".encode() + CALL + b"\n", [(2, 15)]),
    "wide_names": (HEAD + "图 = ".encode() + CALL + "\n变 = 图.cuda()\n".encode(), [(2, 5), (3, 5)]),
    "bom": (b"\xef\xbb\xbf" + HEAD + b"x = " + CALL + b"\n", [(2, 5)]),
    "bom_on_the_line": (b"\xef\xbb\xbfimport torch; x = " + CALL + b"\r\n", [(1, 19)]),
    "bom_and_cookie": (b"\xef\xbb\xbf# coding: utf-8\n" + HEAD + "é = ".encode() + CALL + b"\n", [(3, 5)]),
    "latin_1": (
        b"# -*- coding: latin-1 -*-\n" + HEAD + b"\xe9 = '\xe9'; x = " + CALL + b"  # \xff\n",
        [(3, 14)],
    ),
    "latin_1_crlf": (
        b"#!/usr/bin/python\r\n# vim: set fileencoding=latin-1 :\r\nimport torch\r\ns = '\xe9'; x = " + CALL,
        [(4, 14)],
    ),
    "cp1251": (b"# coding: cp1251\n" + HEAD + b"s = '\xcf\xf0\xe8'; x = " + CALL + b"\n", [(3, 16)]),
    "shift_jis": (
        b"# coding: shift_jis\n" + HEAD + "s = '日本'; x = ".encode("shift_jis") + CALL + b"\n",
        [(3, 15)],
    ),
    "euc_kr": (b"# coding: euc-kr\n" + HEAD + "s = '한국'; x = ".encode("euc-kr") + CALL + b"\n", [(3, 15)]),
    "gb18030": (
        b"# coding: gb18030\n" + HEAD + "s = '中🙂'; x = ".encode("gb18030") + CALL + b"\n",
        [(3, 15)],
    ),
    "escapes": (HEAD + rb"s = '\ud800 \x00 \777 \d'; x = " + CALL + b"\n", [(2, 32)]),
    "trailing_blanks": (b"import torch   \n  \n\t\nx = " + CALL + b"   \n\n\n\n", [(4, 5)]),
    "control_characters_in_a_comment": (HEAD + b"# \x01\x02\x7f\x1b[31m\nx = " + CALL + b"\n", [(3, 5)]),
    "a_line_of_a_megabyte": (
        HEAD + b"s = '" + b"a" * 1_000_000 + b"'; x = " + CALL + b"\n",
        [(2, 1_000_013)],
    ),
}

each_text = pytest.mark.parametrize("name", TEXTS)


@each_text
def test_locations_are_rows_and_characters(tpulint: Command, folder: Path, name: str) -> None:
    data, places = TEXTS[name]
    (folder / "text.py").write_bytes(data)
    outcome = tpulint("check", *OPTIONS)
    assert (1, "") == (outcome.code, outcome.err)
    assert [("text.py", "TPU101", row, column) for row, column in places] == outcome.places


@each_text
def test_fix_changes_only_the_bytes_of_its_edits(tpulint: Command, folder: Path, name: str) -> None:
    data, _ = TEXTS[name]
    (folder / "text.py").write_bytes(data)
    outcome = tpulint("fix", *OPTIONS, "--unsafe-fixes")
    assert (0, "") == (outcome.code, outcome.err)
    assert data.replace(b".cuda()", b'.to("jax")') == (folder / "text.py").read_bytes()
    once = (folder / "text.py").stat()
    assert 0 == tpulint("fix", *OPTIONS, "--unsafe-fixes").code
    again = (folder / "text.py").stat()
    assert (once.st_ino, once.st_mtime_ns) == (again.st_ino, again.st_mtime_ns)


@each_text
def test_every_output_format_handles_unusual_text(tpulint: Command, folder: Path, name: str) -> None:
    (folder / "text.py").write_bytes(TEXTS[name][0])
    for form in ("full", "concise", "github", "sarif"):
        outcome = tpulint("check", "--select", "TPU101", "--output-format", form)
        assert (1, "") == (outcome.code, outcome.err)
        assert "\x1b" not in outcome.out


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_inserted_imports_use_the_files_line_ending(
    tpulint: Command, folder: Path, newline: bytes, bom: bytes
) -> None:
    before = b"import torch\nx = torch.zeros(2)\ntorch.cuda.synchronize()\n"
    after = b"import jax\nimport torch\nx = torch.zeros(2)\njax.block_until_ready(jax.live_arrays())\n"
    (folder / "text.py").write_bytes(bom + before.replace(b"\n", newline))
    tpulint("fix", "--select", "TPU201", "--unsafe-fixes")
    assert bom + after.replace(b"\n", newline) == (folder / "text.py").read_bytes()


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_an_ignore_comment_works_with_every_line_ending(tpulint: Command, folder: Path, newline: str) -> None:
    text = (
        "import torch\nx = torch.zeros(2).cuda()  # tpulint: ignore[TPU101]\n"
        "y = x.cuda()\nz = y.cuda()  # tpulint: ignore\n"
    )
    (folder / "text.py").write_bytes(text.replace("\n", newline).encode())
    assert [("text.py", "TPU101", 3, 5)] == tpulint("check", *OPTIONS).places


@pytest.mark.parametrize(
    "codec", ["utf-7", "unicode_escape", "raw_unicode_escape", "utf-8-sig", "iso2022_jp"]
)
def test_a_file_whose_encoding_does_not_round_trip_is_not_written(
    tpulint: Command, folder: Path, codec: str
) -> None:
    # `+AGE-` is UTF-7 for the letter that needs no escape; ESC ( B is a switch that changes nothing.
    odd = {"utf-7": b"s = '+AGE-'", "iso2022_jp": b"s = '\x1b(B'"}.get(codec, b"s = 1")
    data = b"# coding: " + codec.encode() + b"\n" + HEAD + odd + b"\nx = " + CALL + b"\n"
    (folder / "text.py").write_bytes(data)
    outcome = tpulint("fix", *OPTIONS, "--unsafe-fixes")
    written = (folder / "text.py").read_bytes()
    if outcome.code == 2:
        assert data == written
        assert 1 == len(outcome.err.splitlines())
        assert "text.py" in outcome.err
    else:
        assert data.replace(b".cuda()", b'.to("jax")') == written


def test_a_file_in_unicode_escape_is_reported_and_not_fixed(tpulint: Command, folder: Path) -> None:
    data = b"# coding: unicode_escape\n" + HEAD + b"x = " + CALL + b"\n"
    (folder / "text.py").write_bytes(data)
    outcome = tpulint("fix", *OPTIONS, "--unsafe-fixes")
    assert (2, "error: text.py: cannot be fixed: unicode_escape does not give the same bytes back\n") == (
        outcome.code,
        outcome.err,
    )
    assert data == (folder / "text.py").read_bytes()


def test_standard_input_is_fixed_without_other_byte_changes(tpulint_process: Command) -> None:
    for name, (data, _) in TEXTS.items():
        if name in ("crlf", "cr_only", "bom", "latin_1", "no_final_newline"):
            outcome = tpulint_process("fix", "--unsafe-fixes", "--select", "TPU101", "-", stdin=data)
            fixed = data.replace(b".cuda()", b'.to("jax")')
            assert (0, fixed) == (outcome.code, outcome.raw)
