"""Bad input: one clear line that names the file, the other files still done, nothing changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.robustness.conftest import Command

GOOD = b"import torch\n\nx = torch.zeros(2).cuda()\n"
OPTIONS = ("--select", "TPU101", "--output-format", "json")

#: Files that cannot be analyzed, and a word of the line that says why.
BAD = {
    "binary": (bytes(range(256)), "null bytes"),
    "elf": (b"\x7fELF\x01\x02\x03\xff\xfe", "cannot be decoded"),
    "not_utf8": (b"# x\nname = '\xe9'\n", "cannot be decoded"),
    "not_what_its_cookie_says": (b"# coding: utf-8\nname = '\xe9'\n", "cannot be decoded"),
    "no_such_codec": (b"# coding: klingon\nx = 1\n", "unknown encoding: klingon"),
    "codec_that_is_none": (b"# coding: undefined\nx = '\xe9'\n", "cannot be decoded"),
    "codec_of_bytes": (b"# coding: hex\nx = 1\n", "not a text encoding"),
    "codec_of_text": (b"# coding: rot13\nx = 1\n", "not a text encoding"),
    "utf16_cookie": (b"# coding: utf-16\nx = 1\n", "cannot be decoded"),
    "lone_surrogate": (b"x = '\xed\xa0\x80'\n", "cannot be decoded"),
    "null_byte": (b"x = 1\0\n", "null bytes"),
    "utf16": (GOOD.decode().encode("utf-16"), "null bytes"),
    "utf16_without_mark": (GOOD.decode().encode("utf-16-le"), "null bytes"),
    "utf32": (GOOD.decode().encode("utf-32"), "null bytes"),
    "line_of_10_mb": (b"x = '" + b"a" * 10_000_000 + b"'\n", "larger than 4 MiB"),
    "many_lines": (b"x = 1  # a comment\n" * 230_000, "larger than 4 MiB"),
}

#: Deep code; the analysis either follows it or says that it cannot.
DEEP = {
    "parentheses": b"y = " + b"(" * 5000 + b"1" + b")" * 5000,
    "sum_of_5000": b"y = " + b" + ".join([b"x"] * 5000),
    "sum_of_50000": b"y = " + b" + ".join([b"x"] * 50_000),
    "moves_in_a_sum": b"y = " + b" + ".join([b"x.cpu()"] * 1500),
    "unary_minuses": b"y = " + b"-" * 3000 + b"1",
    "nots": b"y = " + b"not " * 3000 + b"x",
    "lambdas": b"y = " + b"lambda: " * 1500 + b"1",
    "conditionals": b"y = " + b"1 if x else " * 1500 + b"2",
    "attributes": b"y = x" + b".a" * 5000,
    "subscripts": b"y = x" + b"[0]" * 5000,
    "calls": b"y = x" + b"()" * 3000,
    "lists": b"y = " + b"[" * 190 + b"]" * 190,
    "dictionaries": b"y = " + b"{1: " * 180 + b"1" + b"}" * 180,
    "ands": b"y = " + b" and ".join([b"x"] * 5000),
    "comparisons": b"y = " + b" < ".join([b"x"] * 5000),
    "ifs": b"".join(b" " * i + b"if x:\n" for i in range(95)) + b" " * 95 + b"pass",
    "functions": b"".join(b" " * i + b"def f():\n" for i in range(95)) + b" " * 95 + b"pass",
    "too_many_ifs": b"".join(b" " * i + b"if x:\n" for i in range(200)) + b" " * 200 + b"pass",
    "loops": b"".join(b" " * i + b"for x in x:\n" for i in range(19)) + b" " * 19 + b"y = x",
    "elifs": b"if x:\n  pass\n" + b"elif x:\n  pass\n" * 3000,
    "strings": b"y = " + b"'a' " * 20_000,
    "statements": b"y = x\n" * 20_000,
}


def snapshot(folder: Path) -> dict[str, tuple[bytes | str | None, int]]:
    """Everything below a folder: content, or where a link leads, and mode."""
    found: dict[str, tuple[bytes | str | None, int]] = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        content: bytes | str | None = None
        if path.is_symlink():
            content = os.readlink(path)
        elif stat.S_ISREG(mode):
            content = path.read_bytes()
        found[str(path.relative_to(folder))] = (content, mode)
    return found


@pytest.fixture
def bad_files(folder: Path) -> Path:
    for name, (data, _) in BAD.items():
        (folder / f"{name}.py").write_bytes(data)
    (folder / "a_good.py").write_bytes(GOOD)
    (folder / "z_good.py").write_bytes(GOOD)
    return folder


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_each_bad_file_is_one_error_line_and_good_files_are_checked(
    tpulint_process: Command, bad_files: Path, jobs: str
) -> None:
    outcome = tpulint_process("check", *OPTIONS, "-j", jobs)
    told = dict(line.removeprefix("error: ").split(": ", 1) for line in outcome.err.splitlines())
    assert 2 == outcome.code
    assert {f"{name}.py" for name in BAD} == set(told)
    assert [] == [name for name, (_, word) in BAD.items() if word not in told[f"{name}.py"]]
    assert [("a_good.py", "TPU101", 3, 5), ("z_good.py", "TPU101", 3, 5)] == outcome.places


def test_code_of_a_notebook_is_reported_as_not_analyzed(tpulint: Command, folder: Path) -> None:
    (folder / "train.ipynb").write_text('{"cells": [{"cell_type": "code", "source": ["import torch"]}]}')
    outcome = tpulint("check", "train.ipynb")
    assert (1, "") == (outcome.code, outcome.err)
    assert "ENV109 notebook-code: the code of this notebook, which imports `torch`, is not an" in outcome.out


def test_a_notebook_on_standard_input_is_an_error(tpulint_process: Command) -> None:
    outcome = tpulint_process("check", "-", "--stdin-filename", "train.ipynb", stdin=b'{"cells": []}')
    assert 2 == outcome.code
    assert "train.ipynb: a notebook, not analyzed; " in outcome.err


def test_fix_changes_the_good_files_and_no_bad_one(tpulint: Command, bad_files: Path) -> None:
    before = snapshot(bad_files)
    outcome = tpulint("fix", *OPTIONS, "--unsafe-fixes")
    assert 2 == outcome.code
    assert len(BAD) == len(outcome.err.splitlines())
    fixed = GOOD.replace(b".cuda()", b'.to("jax")')
    wanted = before | {name: (fixed, before[name][1]) for name in ("a_good.py", "z_good.py")}
    assert wanted == snapshot(bad_files)


def test_check_writes_nothing_but_its_cache(tpulint: Command, bad_files: Path) -> None:
    before = snapshot(bad_files)
    tpulint("check", *OPTIONS)
    assert before == snapshot(bad_files)


@pytest.fixture
def deep_files(folder: Path) -> Path:
    for name, data in DEEP.items():
        # The finding stands above the deep code, in a function for which nothing below matters.
        (folder / f"{name}.py").write_bytes(b"import torch\n\nx = torch.zeros(2).cuda()\n" + data + b"\n")
    (folder / "good.py").write_bytes(GOOD)
    return folder


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_deeply_nested_code_is_analyzed_or_reported_without_a_crash(
    tpulint_process: Command, deep_files: Path, jobs: str
) -> None:
    outcome = tpulint_process("check", *OPTIONS, "-j", jobs)
    told = dict(line.removeprefix("error: ").split(": ", 1) for line in outcome.err.splitlines())
    unparsable = {name for name, code, _, _ in outcome.places if code == "TPU000"}
    found = {name for name, code, row, column in outcome.places if (code, row, column) == ("TPU101", 3, 5)}
    assert 2 == outcome.code
    assert {f"{name}.py" for name in DEEP} | {"good.py"} == found | unparsable | set(told)
    assert {"parentheses.py", "too_many_ifs.py"} == unparsable
    assert all("nested too deeply" in reason for reason in told.values())
    assert {"sum_of_50000.py"} >= set(told)


def test_fix_leaves_deeply_nested_code_unchanged_or_fixes_around_it(
    tpulint_process: Command, deep_files: Path
) -> None:
    before = snapshot(deep_files)
    outcome = tpulint_process("fix", *OPTIONS, "--unsafe-fixes")
    assert 2 == outcome.code
    assert "internal error" not in outcome.err
    after = snapshot(deep_files)
    assert set(before) == set(after)
    left = {name for name in before if before[name] == after[name]}
    assert {"parentheses.py", "strings.py", "too_many_ifs.py", "sum_of_50000.py"} >= left
    for name in set(before) - left:
        content = before[name][0]
        assert isinstance(content, bytes)
        assert (content.replace(b".cuda()", b'.to("jax")'), before[name][1]) == after[name]


def test_a_syntax_error_is_a_finding_beside_those_of_good_files(tpulint: Command, folder: Path) -> None:
    (folder / "good.py").write_bytes(GOOD)
    (folder / "broken.py").write_bytes(GOOD + b"def f(:\n")
    outcome = tpulint("check", *OPTIONS)
    assert (1, "") == (outcome.code, outcome.err)
    assert [("broken.py", "TPU000", 4, 7), ("good.py", "TPU101", 3, 5)] == outcome.places
    assert 1 == tpulint("fix", *OPTIONS, "--unsafe-fixes").code
    assert GOOD + b"def f(:\n" == (folder / "broken.py").read_bytes()
    assert b".cuda" not in (folder / "good.py").read_bytes()


@pytest.mark.parametrize(
    "tail",
    [
        b"x = (1,\n",
        b"x = '''abc\n",
        b"x = 1\\",
        b"if 1:\n\ty = 2\n        z = 3\n",
        b"\x1a\n",
        b"x = '\\N{foo}'\n",
        b"n = " + b"9" * 5000 + b"\n",
        b"\xef\xbb\xbfx = 1\n",
        b"print 'x'\n",
        b"async = 1\n",
        b"}\n",
        b"f'{x!}'\n",
        b"  x = 1\n",
        b"\n\n\n)",
        "é = ’\n".encode(),
        "x = €\r\n".encode(),
    ],
)
def test_every_syntax_error_has_a_location_within_the_file(
    tpulint: Command, folder: Path, tail: bytes
) -> None:
    (folder / "broken.py").write_bytes(GOOD + tail)
    outcome = tpulint("check", *OPTIONS)
    assert (1, "") == (outcome.code, outcome.err)
    (finding,) = outcome.findings
    lines = (GOOD + tail).decode().replace("\r\n", "\n").split("\n")
    row, column = finding["location"]["row"], finding["location"]["column"]
    assert "TPU000" == finding["code"]
    assert 1 <= row <= len(lines)
    assert 1 <= column <= len(lines[row - 1]) + 1
    assert "\n" not in finding["message"]


@pytest.mark.parametrize("tail", [b"def f(a, a): pass\n", b"def f():\n    nonlocal q\n"])
def test_code_that_parses_but_does_not_compile_is_checked_and_not_fixed(
    tpulint: Command, folder: Path, tail: bytes
) -> None:
    (folder / "odd.py").write_bytes(GOOD + tail)
    assert [("odd.py", "TPU101", 3, 5)] == tpulint("check", *OPTIONS).places
    outcome = tpulint("fix", *OPTIONS, "--unsafe-fixes")
    assert 2 == outcome.code
    assert outcome.err.startswith("error: odd.py: cannot be fixed, since it does not compile: ")
    assert GOOD + tail == (folder / "odd.py").read_bytes()


def test_folders_fifos_and_broken_links_named_like_python_files(
    tpulint_process: Command, folder: Path
) -> None:
    (folder / "good.py").write_bytes(GOOD)
    (folder / "folder.py").mkdir()
    (folder / "folder.py" / "inner.py").write_bytes(GOOD)
    os.mkfifo(folder / "fifo.py")
    (folder / "loop.py").symlink_to("loop.py")
    (folder / "broken.py").symlink_to("nowhere")
    (folder / "here").symlink_to(".")
    (folder / "a").mkdir()
    (folder / "a" / "up").symlink_to("..")
    before = snapshot(folder)
    outcome = tpulint_process("check", *OPTIONS)
    assert [("inner.py", "TPU101", 3, 5), ("good.py", "TPU101", 3, 5)] == outcome.places
    assert (2, before) == (outcome.code, snapshot(folder))
    assert {
        "error: broken.py: no such file or folder",
        "error: fifo.py: neither a file nor a folder",
        "error: loop.py: a link that leads back to itself",
    } == set(outcome.err.splitlines())


def test_a_fifo_named_on_the_command_line_does_not_hang(tpulint_process: Command, folder: Path) -> None:
    os.mkfifo(folder / "fifo.py")
    outcome = tpulint_process("fix", "fifo.py")
    assert (2, "error: fifo.py: neither a file nor a folder\n") == (outcome.code, outcome.err)


def test_a_file_name_need_not_be_valid_utf_8(tpulint_process: Command, folder: Path) -> None:
    odd = os.fsencode(folder) + b"/odd\xff.py"
    with open(odd, "wb") as file:
        file.write(GOOD)
    outcome = tpulint_process("check", "--select", "TPU101", "--output-format", "concise")
    assert (1, "") == (outcome.code, outcome.err)
    assert outcome.out.startswith("odd\\udcff.py:3:5: TPU101")
    for form in ("json", "sarif", "github", "full"):
        outcome = tpulint_process("check", "--select", "TPU101", "--output-format", form)
        assert (1, "") == (outcome.code, outcome.err)
    assert 1 == tpulint_process("fix", "--diff", "--select", "TPU101", "--unsafe-fixes").code
    assert 0 == tpulint_process("fix", "--select", "TPU101", "--unsafe-fixes").code
    with open(odd, "rb") as file:
        assert GOOD.replace(b".cuda()", b'.to("jax")') == file.read()


def refuse(monkeypatch: pytest.MonkeyPatch, function: str, refused: str) -> None:
    """Make the system refuse one path, which root's rights would otherwise open."""
    import builtins

    module = {"open": builtins, "scandir": os}[function]
    real: Callable[..., object] = getattr(module, function)

    def picky(path: object, *arguments: object, **options: object) -> object:
        if isinstance(path, str | Path) and Path(path).name == refused:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(module, function, picky)


def test_an_unreadable_file_is_named_and_the_rest_done(
    tpulint: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "good.py").write_bytes(GOOD)
    (folder / "secret.py").write_bytes(GOOD)
    refuse(monkeypatch, "open", "secret.py")
    outcome = tpulint("check", *OPTIONS)
    assert (2, "error: secret.py: cannot be read: Permission denied\n") == (outcome.code, outcome.err)
    assert [("good.py", "TPU101", 3, 5)] == outcome.places


def test_an_unreadable_folder_is_named_and_the_rest_done(
    tpulint: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "good.py").write_bytes(GOOD)
    (folder / "secret").mkdir()
    refuse(monkeypatch, "scandir", "secret")
    outcome = tpulint("check", *OPTIONS)
    assert (2, "error: secret: permission denied\n") == (outcome.code, outcome.err)
    assert [("good.py", "TPU101", 3, 5)] == outcome.places


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_files_and_folders_without_read_permission_are_errors(tpulint_process: Command, folder: Path) -> None:
    (folder / "good.py").write_bytes(GOOD)
    for name in ("file.py", "folder"):
        (folder / name).mkdir() if name == "folder" else (folder / name).write_bytes(GOOD)
        (folder / name).chmod(0)
    outcome = tpulint_process("check", *OPTIONS)
    (folder / "folder").chmod(0o700)
    assert 2 == outcome.code
    assert [("good.py", "TPU101", 3, 5)] == outcome.places
    assert {"file.py", "folder"} == {line.split(": ")[1] for line in outcome.err.splitlines()}


@pytest.mark.parametrize(
    "content",
    [
        b"[tool.tpulint\n",
        b"\xff\xfe",
        b"[tool]\ntpulint = 3\n",
        b"[tool.tpulint]\nselect = 3\n",
        b"a = 1\na = 2\n",
        b"[tool.tpulint]\nno-such = 1\n",
        b"x = " + b"[" * 5000,
        b"\0",
    ],
)
def test_a_broken_pyproject_is_one_line_and_changes_nothing(
    folder: Path, content: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    from tpulint.cli import run

    (folder / "good.py").write_bytes(GOOD)
    (folder / "pyproject.toml").write_bytes(content)
    before = snapshot(folder)
    for command in ("check", "fix"):
        assert 2 == run([command, "--no-cache"])
        captured = capfd.readouterr()
        assert ("", 1) == (captured.out, len(captured.err.splitlines()))
        assert captured.err.startswith(f"error: {folder / 'pyproject.toml'}: ")
    assert before == snapshot(folder)


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"# only\n# comments", b"\xef\xbb\xbf", b"\x0c", b"'''x'''", b"\r", b"\t\n"]
)
def test_nearly_empty_files_are_clean(tpulint: Command, folder: Path, data: bytes) -> None:
    (folder / "little.py").write_bytes(data)
    for command in ("check", "fix"):
        outcome = tpulint(command)
        assert (0, "", "") == (outcome.code, outcome.out, outcome.err)
    assert data == (folder / "little.py").read_bytes()


def test_a_variable_that_is_computed_from_itself_is_analyzed(tpulint: Command, folder: Path) -> None:
    flags = 'flags = "--xla_gpu_autotune_level=4"\nflags = flags + " "\nos.environ["XLA_FLAGS"] = flags\n'
    (folder / "flags.py").write_text(f"import os\n\nimport jax\n\n{flags}")
    outcome = tpulint("check", "--select", "JAX106", "--output-format", "json", "flags.py")
    assert [("flags.py", "JAX106", 7, 27)] == outcome.places
    assert "" == outcome.err
