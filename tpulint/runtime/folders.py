"""Where the dependencies of a program may be declared, and a copy of the runtime may lie."""

from __future__ import annotations

from pathlib import Path


def folders_above(path: Path, root: Path) -> list[Path]:
    """The folders of a file, from its own up to the root of its repository.

    Without a repository, they reach up to the root of the project; if the file is not in the project, its own
    folder is the only one.
    """
    folders = list(path.parents)
    outermost = repository(path.parent) or (root if root in folders else path.parent)
    return folders[: folders.index(outermost) + 1]


def repository(folder: Path) -> Path | None:
    """The root of the Git repository that a folder is in."""
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), None)
