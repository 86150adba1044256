"""Reads the request of a worker, and lets the process import the copy of the project, not the project."""

from __future__ import annotations

import json
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import TypeVar

import tpulint

Request = TypeVar("Request")


def read(request: type[Request], file: str) -> Request:
    """The request in a JSON file: its fields, and the user's `project`, of which its `root` is a copy."""
    values = json.loads(Path(file).read_text(encoding="utf-8"))
    import_copy(Path(values.pop("project")), Path(values["root"]))
    return request(**values)


def import_copy(project: Path, copy: Path) -> None:
    """Replace folders of the project on the import path by those of the copy.

    Packages of the project that are installed in editable mode, or found by PYTHONPATH, would otherwise be
    imported from the user's files, which are not fixed.
    """
    sys.path[:] = [_in_copy(folder, project, copy) for folder in sys.path]
    for finder in sys.meta_path:
        # setuptools installs a finder for each distribution, in a module with the folder of each package.
        module = sys.modules.get(getattr(finder, "__module__", ""))
        if module is not None and module.__name__.startswith("__editable__"):
            folders: MutableMapping[str, str] = getattr(module, "MAPPING", {})
            for name, folder in folders.items():
                folders[name] = _in_copy(folder, project, copy)


def _in_copy(folder: str, project: Path, copy: Path) -> str:
    """The folder in the copy; itself if it is not of the project, or belongs to tpulint or to Python."""
    path = Path(folder)
    own = (Path(tpulint.__file__).parents[1], Path(sys.prefix))
    if not path.is_relative_to(project) or any(path.is_relative_to(one) for one in own):
        return folder
    copied = copy / path.relative_to(project)
    return str(copied) if copied.exists() else folder
