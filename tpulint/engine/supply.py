"""What a fix adds to a project so that its programs find the runtime: a dependency, or a vendored copy."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from tpulint.engine.change import Change
from tpulint.knowledge.runtime import PACKAGE
from tpulint.runtime import dependencies

#: Deeply nested code cannot be parsed again here, so the text is searched.
_IMPORT = re.compile(rf"^[ \t]*(import|from)[ \t]+{PACKAGE}\b", re.MULTILINE)


def newly_importing(changes: Sequence[Change]) -> list[Path]:
    """The changed files that import the runtime, and did not before."""
    return [Path(one.path) for one in changes if _imports(one.after) and not _imports(one.before)]


def _imports(text: str) -> bool:
    return _IMPORT.search(text) is not None


def declaring(importing: Sequence[Path], root: Path) -> Change | None:
    """The change that declares the dependency, in the nearest folder above the files that declares any.

    None if there is no such folder up to the root of the project or of its repository, or if the dependency
    is declared there already.
    """
    if not importing:
        return None
    folder = Path(os.path.commonpath([path.parent for path in importing]))
    outermost = _repository(folder) or root
    for place in (folder, *folder.parents):
        if any(True for _ in dependencies.declarations(place)):
            found = dependencies.to_extend(place)
            if found is None or found.extended is None:
                return None
            before, after = found.text, found.extended
            return Change(str(found.path), before, after, before.encode(), after.encode())
        if place == outermost:
            return None
    return None


def _repository(folder: Path) -> Path | None:
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), None)


def import_root(importing: Sequence[Path], root: Path) -> Path:
    """The folder from which all files find a vendored copy.

    It is the folder that the files' outermost packages lie in, else the root of the project: programs in
    other folders need it on their path.
    """
    found = set()
    for path in importing:
        folder = path.parent
        while (folder / "__init__.py").is_file():
            folder = folder.parent
        found.add(folder)
    return found.pop() if len(found) == 1 else root
