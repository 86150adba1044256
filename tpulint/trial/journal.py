"""Copies of the files that a trial modifies, on disk, so that an interruption does not lose them.

The journal is a folder in the cache of the project.
It exists while files may differ from the user's: if the process is killed, `recover` restores them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tpulint.engine.change import Change
from tpulint.settings import Settings

_NAME = "trial"
_FILES = "files.json"
_WRITTEN = "written"


class JournalError(Exception):
    """Another trial of the project is running, or a file cannot be written; the message is one line."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """The files of an interrupted trial.

    Args:
        restored: the files that were restored.
        changed: the files that were not restored, because the user has changed them in the meantime: each
            with the path of a copy of the original.
    """

    restored: tuple[str, ...] = ()
    changed: tuple[tuple[str, str], ...] = ()


def folder_of(settings: Settings) -> Path:
    """The folder of the journal of a project."""
    return (settings.cache_dir or settings.root / ".tpulint_cache") / _NAME


class Journal:
    """The journal of one trial.

    Args:
        folder: the folder of the journal.
        originals: the contents of the files before the trial, by path.


    Raises:
        JournalError: the folder exists already, or cannot be written.
    """

    def __init__(self, folder: Path, originals: Mapping[str, bytes]) -> None:
        self._folder, self._originals = folder, dict(originals)
        self._current = dict(originals)
        listed = {path: f"{number}.original" for number, path in enumerate(sorted(originals))}
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            ignored = folder.parent / ".gitignore"
            if not ignored.exists():
                ignored.write_text("*\n")
            if folder.exists():
                raise JournalError(f"another `fix --verify-with` of this project is running ({folder})")
            folder.mkdir()
            for path, name in listed.items():
                _write_synced(folder / name, originals[path])
            _write_synced(folder / _FILES, json.dumps({"process": os.getpid(), "files": listed}).encode())
        except OSError as error:
            raise JournalError(f"{folder}: cannot be written: {error.strerror or error}") from error

    def write(self, contents: Mapping[str, bytes]) -> None:
        """Write the contents of files, and the original contents of all others of the journal.

        Raises:
            OSError: a file cannot be written, or another process has changed it; see `Change.write`.
        """
        for path, original in self._originals.items():
            wanted = contents.get(path, original)
            if wanted == self._current[path]:
                continue
            with (self._folder / _WRITTEN).open(
                "a"
            ) as stream:  # before the file, so that `recover` knows its contents
                stream.write(f"{_digest(wanted)}\n")
                stream.flush()
                os.fsync(stream.fileno())
            Change(path, "", "", self._current[path], wanted).write()
            self._current[path] = wanted

    def restore(self) -> Recovery:
        """Restore all files, and remove the journal.

        Raises:
            JournalError: a file cannot be written; the journal stays, for `recover`.
        """
        return _restored(self._folder)


def recover(settings: Settings) -> Recovery:
    """Restore the files of a trial that was killed.

    Raises:
        JournalError: the process is still running, or a file cannot be written.
    """
    folder = folder_of(settings)
    if not folder.is_dir():
        return Recovery()
    try:
        listed = json.loads((folder / _FILES).read_text())
    except (OSError, ValueError):
        shutil.rmtree(folder, ignore_errors=True)  # it was killed before it wrote any file
        return Recovery()
    if _is_running(listed["process"]):
        raise JournalError(
            f"`fix --verify-with` is running in process {listed['process']}: wait until it ends"
        )
    return _restored(folder)


def _restored(folder: Path) -> Recovery:
    """Restore the files of a journal, and remove it, except for the copies of files that were changed."""
    listed = json.loads((folder / _FILES).read_text())
    written = set[str]()
    with contextlib.suppress(OSError):
        written = set((folder / _WRITTEN).read_text().split())
    restored, changed = [], []
    for path, name in listed["files"].items():
        original = (folder / name).read_bytes()
        try:
            current = Path(path).read_bytes()
        except OSError:
            current = b""
        if current == original:
            continue
        if _digest(current) not in written:
            changed.append((path, str(folder / name)))
            continue
        try:
            Change(path, "", "", current, original).write()
        except OSError as error:
            raise JournalError(f"{path}: cannot be restored: {error.strerror or error}") from error
        restored.append(path)
    if changed:
        kept = folder.with_name(f"{_NAME}-{os.getpid()}")
        folder.rename(kept)
        changed = [(path, str(kept / Path(name).name)) for path, name in changed]
    else:
        shutil.rmtree(folder)
    return Recovery(tuple(restored), tuple(changed))


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _is_running(process: int) -> bool:
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # a process of another user
    return True
