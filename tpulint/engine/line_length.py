"""How long the lines of a project may be."""

from __future__ import annotations

import configparser
import os
import tomllib
from pathlib import Path

#: Where nothing says it, as black and ruff have it.
DEFAULT = 88
_INI = ("setup.cfg", "tox.ini", ".flake8", ".pylintrc")
_KEYS = (("flake8", "max-line-length"), ("flake8", "max_line_length"), ("FORMAT", "max-line-length"))


class Widths:
    """The length that lines may have, by file; each folder's configuration is read once."""

    def __init__(self) -> None:
        self._by_folder: dict[str, int | None] = {}

    def of(self, path: str, data: bytes) -> int:
        """The length that a file's project states; else the default, or that of the file's longest line."""
        stated = self._stated(os.path.dirname(os.path.abspath(path)))
        if stated is not None:
            return stated
        longest = max((len(line.decode(errors="replace")) for line in data.splitlines()), default=0)
        return max(DEFAULT, longest)

    def _stated(self, folder: str) -> int | None:
        if folder not in self._by_folder:
            parent = os.path.dirname(folder)
            found = _in_folder(Path(folder)) if os.path.isdir(folder) else None
            is_top = parent == folder or os.path.lexists(os.path.join(folder, ".git"))
            self._by_folder[folder] = found if found is not None or is_top else self._stated(parent)
        return self._by_folder[folder]


def _in_folder(folder: Path) -> int | None:
    """The length that a folder's configuration files state."""
    tables: list[object] = []
    for name in ("ruff.toml", ".ruff.toml", "pyproject.toml"):
        document = _toml(folder / name)
        tool = document.get("tool", {}) if name == "pyproject.toml" else {"ruff": document}
        if isinstance(tool, dict):
            tables += [tool.get(one) for one in ("ruff", "black", "flake8", "pycodestyle")]
    for table in tables:
        if isinstance(table, dict):
            for key in ("line-length", "line_length", "max-line-length"):
                if isinstance(table.get(key), int):
                    return int(table[key])
    for name in _INI:
        parser = configparser.RawConfigParser()
        try:
            parser.read(folder / name, encoding="utf-8")
            for section, key in _KEYS:
                if parser.has_option(section, key):
                    return parser.getint(section, key)
        except (configparser.Error, ValueError, OSError):
            continue
    return None


def _toml(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
