"""What was found before, by the content of all that it depended on."""

from __future__ import annotations

import functools
import hashlib
import io
import pickle
import sqlite3
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import tpulint
from tpulint.registry import rules

#: Entries that no run has asked for in this many runs are dropped.
_KEEP_RUNS = 40


class Cache(Protocol):
    """Values by key."""

    def get(self, keys: Iterable[str]) -> dict[str, Any]:
        """The values that are there."""
        ...

    def put(self, values: Mapping[str, Any]) -> None:
        """Keep values."""
        ...


class MemoryCache:
    """Keeps values as long as it lives."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def get(self, keys: Iterable[str]) -> dict[str, Any]:
        """The values that are there."""
        return {key: self._values[key] for key in keys if key in self._values}

    def put(self, values: Mapping[str, Any]) -> None:
        """Keep values."""
        self._values.update(values)


#: Modules whose classes a stored value may be made of.
_TRUSTED = frozenset(
    {
        "tpulint.engine.desk",
        "tpulint.finding",
        "tpulint.model.project.facts",
        "tpulint.model.project.handing",
        "tpulint.model.project.on_host",
        "tpulint.model.project.takers",
        "tpulint.plan",
    }
)


class _Reader(pickle.Unpickler):
    """Reads stored values and nothing else, so that a cache in somebody's repository runs no code."""

    def find_class(self, module: str, name: str) -> Any:
        if module in _TRUSTED and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        if (module, name) == ("builtins", "frozenset"):
            return frozenset
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a stored value")


class FileCache:
    """Keeps values in an SQLite file; one that cannot be used is as good as an empty one."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "cache.sqlite"
        self._connection: sqlite3.Connection | None = None
        self._run = 0
        try:
            self._open(folder)
        except (OSError, sqlite3.Error):
            self._connection = None

    def _open(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        ignore = folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
        connection = sqlite3.connect(self._path, timeout=2, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, run INTEGER, value BLOB) WITHOUT ROWID"
        )
        row = connection.execute("SELECT MAX(run) FROM entries").fetchone()
        self._run = (row[0] or 0) + 1
        self._connection = connection

    def get(self, keys: Iterable[str]) -> dict[str, Any]:
        """The values that are there."""
        if self._connection is None:
            return {}
        found: dict[str, Any] = {}
        wanted = list(keys)
        try:
            for start in range(0, len(wanted), 500):
                some = wanted[start : start + 500]
                marks = ",".join("?" * len(some))
                for key, value in self._connection.execute(
                    f"SELECT key, value FROM entries WHERE key IN ({marks})", some
                ):
                    found[key] = _Reader(io.BytesIO(value)).load()
        except Exception:  # a broken or foreign file, whatever it leads to, is as good as an empty one
            return {}
        return found

    def put(self, values: Mapping[str, Any]) -> None:
        """Keep values, and drop what no run has made for long."""
        if self._connection is None or not values:
            return
        rows = [
            (key, self._run, pickle.dumps(value, pickle.HIGHEST_PROTOCOL)) for key, value in values.items()
        ]
        try:
            self._connection.execute("BEGIN")
            self._connection.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", rows)
            self._connection.execute("DELETE FROM entries WHERE run < ?", (self._run - _KEEP_RUNS,))
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            self._connection = None


@functools.cache
def tool_digest() -> str:
    """A digest of this version of the tool, its rules and its interpreter."""
    digest = hashlib.blake2b(f"{tpulint.__version__} {sys.version}".encode(), digest_size=16)
    folders = {
        Path(__file__).parents[1],
        *(Path(sys.modules[rule.module].__file__ or ".").parent for rule in rules()),
    }
    for folder in sorted(folders):
        for path in sorted(folder.rglob("*.py")):
            state = path.stat()
            digest.update(f"{path} {state.st_mtime_ns} {state.st_size}".encode())
    return digest.hexdigest()
