"""Which files of a project are the runtime's: a vendored copy, or what fixes of earlier versions wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tpulint.engine.desk import Unit
from tpulint.knowledge.runtime import FORMER, PACKAGE

#: The folders and files by their names, each folder with a file that it holds.
_FOLDERS = {
    PACKAGE: "environment.py",
    FORMER: "amended.py",
    "torchax_events": "events.py",
    "torchax_pickle": "pickling.py",
}
_FILES = frozenset({"torchax_mesh.py", "torchax_images.py"})


def users_own(units: Mapping[str, Unit]) -> dict[str, Unit]:
    """The files without those of the runtime, which are recognized by their folders."""
    return {path: unit for path, unit in units.items() if not is_shipped(unit)}


def is_shipped(unit: Unit) -> bool:
    """Whether a file is one of the runtime."""
    path = Path(unit.path)
    if path.name in _FILES:
        return True
    return any(
        folder.name in _FOLDERS and (folder / _FOLDERS[folder.name]).is_file() for folder in path.parents
    )
