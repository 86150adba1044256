"""Two copies of a user's project: the original, and one after `fix --unsafe-fixes`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tpulint.invocation import UsageError, asked_for
from tpulint.settings import DEFAULT_EXCLUDE, matches

_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
# The project may be or contain the folder for temporary files, which has the copies.
_LEFT_OUT = (*(name for name in DEFAULT_EXCLUDE if name not in ("dist", "_build")), "tpulint-verify-*")
LARGEST = 2 * 2**30
"""The largest project that is copied, in bytes."""


@dataclass(frozen=True, slots=True)
class Project:
    """The folder of a user's project, and its two copies."""

    root: Path
    original: Path
    fixed: Path
    fixes: int = 0
    """The number of fixes that were applied to the second copy."""

    def in_original(self, path: Path) -> Path:
        """The path in the first copy."""
        return self.original / path.resolve().relative_to(self.root)

    def in_fixed(self, path: Path) -> Path:
        """The path in the second copy."""
        return self.fixed / path.resolve().relative_to(self.root)

    def working_folder(self, file: Path) -> Path:
        """The working folder of a program: the current one if it is in the project, or its own."""
        here = Path.cwd().resolve()
        return here if here.is_relative_to(self.root) else file.resolve().parent


def root_of(file: Path) -> Path:
    """The closest folder with a file such as pyproject.toml, or else that of the file or its package."""
    folder = file.resolve().parent
    for candidate in (folder, *folder.parents):
        if any((candidate / mark).exists() for mark in _MARKS):
            return candidate
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return folder


def copy_project(root: Path, workspace: Path, exclude: Sequence[str]) -> Project:
    """Copy a project twice, and fix the second copy.

    Args:
        root: the folder of the project.
        workspace: the folder for the copies.
        exclude: patterns of files and folders that are not copied.

    Raises:
        UsageError: the project is too large to be copied.
    """
    left_out = (*_LEFT_OUT, *exclude)
    size = _size(root, left_out)
    if size > LARGEST:
        raise UsageError(
            f"the project {root} has {size / 2**30:.1f} GiB, which is too large to copy twice; leave folders"
            " out with --exclude, or name a smaller folder with --project"
        )
    original = workspace / "original" / root.name
    fixed = workspace / "fixed" / root.name
    for target in (original, fixed):
        shutil.copytree(
            root, target, symlinks=False, ignore=_ignoring(root, left_out), ignore_dangling_symlinks=True
        )
    return Project(root, original, fixed, _fix(fixed))


def _fix(folder: Path) -> int:
    """Apply all fixes to the files of a folder, and return their number."""
    from tpulint.engine.fix import fix

    given = asked_for((str(folder),))
    result = fix(given.files, given.settings, cache=False, unsafe=True)
    for change in result.changes:
        change.write()
    return sum(sum(counts.values()) for counts in result.applied.values())


def _ignoring(root: Path, left_out: tuple[str, ...]) -> Callable[[str, list[str]], set[str]]:
    def ignored(folder: str, names: list[str]) -> set[str]:
        inner = os.path.relpath(folder, root)
        prefix = "" if inner == "." else f"{inner}/"
        return {
            name
            for name in names
            if matches(left_out, f"{prefix}{name}") or not _is_plain(Path(folder, name))
        }

    return ignored


def _is_plain(path: Path) -> bool:
    return path.is_file() or path.is_dir()


def _size(root: Path, left_out: tuple[str, ...]) -> int:
    total = 0
    for folder, folders, files in os.walk(root):
        inner = os.path.relpath(folder, root)
        prefix = "" if inner == "." else f"{inner}/"
        folders[:] = [name for name in folders if not matches(left_out, f"{prefix}{name}")]
        for name in files:
            path = Path(folder, name)
            if not matches(left_out, f"{prefix}{name}") and path.is_file():
                total += path.stat().st_size
    return total
