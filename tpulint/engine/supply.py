"""What a fix adds to a project so that its programs find the runtime: a dependency, or a vendored copy."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from tpulint.engine.change import Change
from tpulint.knowledge.runtime import ENABLE, ONE_RANK_PER_DEVICE, PACKAGE
from tpulint.runtime import dependencies
from tpulint.runtime.folders import folders_above, repository

#: Deeply nested code cannot be parsed again here, so the text is searched.
_IMPORT = re.compile(rf"^[ \t]*(import|from)[ \t]+{PACKAGE}\b", re.MULTILINE)


def newly_importing(changes: Sequence[Change]) -> list[Path]:
    """The changed files that import the runtime, and did not before."""
    return [Path(one.path) for one in changes if _imports(one.after) and not _imports(one.before)]


def newly_entering(changes: Sequence[Change]) -> list[tuple[Path, bool]]:
    """The changed programs that enter the torchax environment, and did not before.

    Each comes with whether it makes all devices of a host ranks.
    """
    return [
        (Path(one.path), ONE_RANK_PER_DEVICE.rpartition(".")[2] in one.after)
        for one in changes
        if f"{ENABLE}()" in one.after and f"{ENABLE}()" not in one.before
    ]


def _imports(text: str) -> bool:
    return _IMPORT.search(text) is not None


def declarations_for(importing: Sequence[Path], root: Path) -> list[Change]:
    """The changes that declare the dependency, each in the nearest folder above some files that declares any.

    The folders reach up to the root of the repository, or of the project.

    Args:
        importing: the files that import the runtime.
        root: the root of the project.
    """
    found: dict[str, Change] = {}
    for path in {path.parent: path for path in importing}.values():
        for folder in folders_above(path, root):
            declared = list(dependencies.declarations(folder))
            extended = dependencies.to_extend(declared)
            if extended is not None and extended.extended is not None:
                before, after = extended.text, extended.extended
                change = Change(str(extended.path), before, after, before.encode(), after.encode())
                found[change.path] = change
            if declared:
                break
    return list(found.values())


def vendoring_folder(importing: Sequence[Path]) -> Path:
    """The folder from which the files find a vendored copy.

    If the outermost packages of the files have one parent folder, it is that; else it is the root of the
    repository, or the common parent of all files.
    """
    found = set()
    for path in importing:
        folder = path.parent
        while (folder / "__init__.py").is_file():
            folder = folder.parent
        found.add(folder)
    if len(found) == 1:
        return found.pop()
    common = Path(os.path.commonpath(found))
    return repository(common) or common
