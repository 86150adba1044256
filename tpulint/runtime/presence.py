"""Whether the programs of a project find the runtime torchax-compat."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path

from tpulint.knowledge.runtime import PACKAGE
from tpulint.runtime.dependencies import is_declared
from tpulint.runtime.folders import folders_above


def is_installed() -> bool:
    """Whether the runtime is installed in the environment in which tpulint runs."""
    return importlib.util.find_spec(PACKAGE) is not None


def is_in_project(importing: Iterable[str], root: Path) -> bool:
    """Whether a project declares the runtime as a dependency, or has a copy of it.

    Args:
        importing: the paths of the files that import it.
        root: the root of the project.
    """
    folders = {folder: None for path in importing for folder in (*folders_above(Path(path), root), root)}
    return any((folder / PACKAGE / "__init__.py").is_file() or is_declared(folder) for folder in folders)
