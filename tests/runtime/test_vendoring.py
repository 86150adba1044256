"""Copies of the runtime in a project: made, compared, replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpulint.cli import run
from tpulint.runtime import vendoring
from tpulint.runtime.vendoring import VendorError, copy_in, is_current, write

OLD = {"__init__.py": b"", "version.py": b'__version__ = "0.0.9"\n'}


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with a copy of an older version than the installed one."""
    with monkeypatch.context() as patch:
        patch.setattr(vendoring, "source", lambda: ("0.0.9", OLD))
        write(tmp_path)
    return tmp_path


def test_copy_is_the_installed_runtime_with_a_stamp(tmp_path: Path) -> None:
    version, files = vendoring.source()
    made = write(tmp_path / "vendor")
    assert (tmp_path / "vendor/torchax_compat", version, ()) == (made.folder, made.version, made.changed)
    assert {*files, vendoring.STAMP} == {
        path.relative_to(made.folder).as_posix() for path in made.folder.rglob("*") if path.is_file()
    }
    assert is_current(made)
    assert made == copy_in(tmp_path / "vendor")


def test_line_endings_of_a_checkout_are_no_change(tmp_path: Path) -> None:
    made = write(tmp_path)
    file = made.folder / "version.py"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert made == copy_in(tmp_path) and is_current(made)


@pytest.mark.parametrize("change", ["edit", "add", "remove"])
def test_changed_files_are_named_and_kept(older: Path, change: str) -> None:
    folder = older / "torchax_compat"
    name = "ours.py" if change == "add" else "version.py"
    if change == "remove":
        (folder / name).unlink()
    else:
        (folder / name).write_text("ours = 1\n")
    copy = copy_in(older)
    assert copy is not None and (name,) == copy.changed
    with pytest.raises(VendorError, match=name):
        write(older, upgrade=True)
    assert change == "remove" or (folder / name).read_text() == "ours = 1\n"


def test_older_copy_is_replaced_only_on_request(older: Path) -> None:
    copy = copy_in(older)
    assert copy is not None and (copy.version, is_current(copy)) == ("0.0.9", False)
    with pytest.raises(VendorError, match="--upgrade"):
        write(older)
    assert is_current(write(older, upgrade=True))


def test_command_makes_checks_and_upgrades_a_copy(
    tmp_path: Path, older: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    version, _ = vendoring.source()
    assert run(["vendor", str(tmp_path / "new")]) == 0
    assert f"copied torchax-compat {version} into" in capsys.readouterr().out
    assert run(["vendor", "--check", str(tmp_path / "new")]) == 0
    assert run(["vendor", "--check", str(older)]) == 1
    assert f"torchax-compat 0.0.9; {version} is installed" in capsys.readouterr().out
    assert run(["vendor", "--upgrade", str(older)]) == 0
    assert run(["vendor", "--check", str(older)]) == 0


def test_folder_without_a_copy_and_a_damaged_stamp_are_errors(
    tmp_path: Path, older: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["vendor", "--check", str(tmp_path / "nothing")]) == 1
    assert "has no copy of torchax-compat" in capsys.readouterr().out
    assert run(["vendor", "--check", "--upgrade", str(older)]) == 2
    capsys.readouterr()
    (older / "torchax_compat" / vendoring.STAMP).write_text("{")
    assert run(["vendor", "--check", str(older)]) == 2
    assert "cannot be read as a stamp" in capsys.readouterr().err


def test_without_the_runtime_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr("importlib.machinery.PathFinder.find_spec", lambda *_: None)
    with pytest.raises(VendorError, match="pip install torchax-compat"):
        vendoring.source()


@pytest.mark.parametrize("stamp", ['{"files": ["a"]}', "null", "3", "{}"])
def test_stamps_of_another_form_are_errors(older: Path, stamp: str) -> None:
    (older / "torchax_compat" / vendoring.STAMP).write_text(stamp)
    with pytest.raises(VendorError, match="stamp"):
        copy_in(older)


def test_what_lies_in_the_way_is_no_copy(tmp_path: Path) -> None:
    (tmp_path / "torchax_compat").write_text("")
    with pytest.raises(VendorError, match="no copy"):
        write(tmp_path)


def test_copy_in_the_current_folder_is_not_compared_with_itself(
    older: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(older)
    monkeypatch.syspath_prepend("")
    copy = copy_in(Path())
    assert copy is not None and not is_current(copy)
