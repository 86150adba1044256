"""The files of an interrupted trial are restored."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tpulint.settings import Settings
from tpulint.trial.journal import Journal, JournalError, folder_of, recover

DEAD = 2**22 - 3  # beyond the largest number of a process


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    found = {str(tmp_path / name): f"{name}\r\n".encode() for name in ("a.py", "b.py")}
    for path, data in found.items():
        Path(path).write_bytes(data)
    return found


def now(files: dict[str, bytes]) -> dict[str, bytes]:
    return {path: Path(path).read_bytes() for path in files}


def die(folder: Path) -> None:
    """Let the journal be that of a process that was killed."""
    listed = json.loads((folder / "files.json").read_text())
    (folder / "files.json").write_text(json.dumps({**listed, "process": DEAD}))


def test_files_that_are_not_named_are_restored(settings: Settings, files: dict[str, bytes]) -> None:
    first, second = files
    journal = Journal(folder_of(settings), files)
    journal.write({first: b"1"})
    assert {first: b"1", second: files[second]} == now(files)
    journal.write({second: b"2"})
    assert {first: files[first], second: b"2"} == now(files)
    journal.write({})
    journal.restore()
    assert files == now(files)
    assert not folder_of(settings).exists()


def test_a_process_that_was_killed_loses_nothing(settings: Settings, files: dict[str, bytes]) -> None:
    first, second = files
    Journal(folder_of(settings), files).write({first: b"1", second: b"2"})
    die(folder_of(settings))
    found = recover(settings)
    assert ((first, second), ()) == (found.restored, found.changed)
    assert files == now(files)
    assert not folder_of(settings).exists()
    assert () == recover(settings).restored


def test_files_that_the_user_has_changed_meanwhile_are_kept(
    settings: Settings, files: dict[str, bytes]
) -> None:
    first, second = files
    Journal(folder_of(settings), files).write({first: b"1", second: b"2"})
    Path(first).write_bytes(b"work of the user")
    Path(second).unlink()
    die(folder_of(settings))
    found = recover(settings)
    assert b"work of the user" == Path(first).read_bytes()
    assert {first, second} == {path for path, _ in found.changed}
    assert {path: Path(copy).read_bytes() for path, copy in found.changed} == files


def test_a_journal_that_is_not_complete_is_removed(settings: Settings, files: dict[str, bytes]) -> None:
    Journal(folder_of(settings), files)
    (folder_of(settings) / "files.json").write_text('{"process": 1, "fi')
    assert () == recover(settings).restored
    assert files == now(files)
    assert not folder_of(settings).exists()


def test_a_running_trial_is_not_disturbed(settings: Settings, files: dict[str, bytes]) -> None:
    Journal(folder_of(settings), files).write({next(iter(files)): b"1"})
    listed = json.loads((folder_of(settings) / "files.json").read_text())
    (folder_of(settings) / "files.json").write_text(json.dumps({**listed, "process": os.getppid()}))
    with pytest.raises(JournalError, match=f"is running in process {os.getppid()}"):
        recover(settings)
    with pytest.raises(JournalError, match="another `fix --verify-with`"):
        Journal(folder_of(settings), files)


def test_a_cache_that_cannot_be_written_is_an_error(tmp_path: Path, files: dict[str, bytes]) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(JournalError, match="cannot be written"):
        Journal(folder_of(Settings(root=tmp_path, cache_dir=tmp_path / "cache")), files)
