"""Copies of a user's project: one as it is, and one that `fix --unsafe-fixes` rewrote."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tpulint.invocation import UsageError, asked_for
from tpulint.settings import DEFAULT_EXCLUDE, matches

_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
# The project may be the folder for temporary files, or have it inside.
_LEFT_OUT = (*(name for name in DEFAULT_EXCLUDE if name not in ("dist", "_build")), "tpulint-verify-*")
LARGEST = 2 * 2**30
"""The largest project that is copied, in bytes."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project in the user's tree, and its two copies."""

    root: Path
    original: Path
    fixed: Path
    fixes: int = 0
    """How many fixes were applied to the second copy."""

    def in_original(self, path: Path) -> Path:
        """Where a path of the project is in the first copy."""
        return self.original / path.resolve().relative_to(self.root)

    def in_fixed(self, path: Path) -> Path:
        """Where a path of the project is in the second copy."""
        return self.fixed / path.resolve().relative_to(self.root)

    def working_folder(self, file: Path) -> Path:
        """The folder that a program is started in: the current one if it is in the project, or its own."""
        here = Path.cwd().resolve()
        return here if here.is_relative_to(self.root) else file.resolve().parent


def root_of(file: Path) -> Path:
    """The folder above a file that looks like a project's, or else that of the file or of its package."""
    folder = file.resolve().parent
    for candidate in (folder, *folder.parents):
        if any((candidate / mark).exists() for mark in _MARKS):
            return candidate
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return folder


def copied(root: Path, place: Path, exclude: Sequence[str], *, fixes: bool = True) -> Project:
    """Copy a project twice, and fix the second copy.

    Raises:
        UsageError: the project is too large to be copied.
    """
    left_out = (*_LEFT_OUT, *exclude)
    size = _size(root, left_out)
    if size > LARGEST:
        raise UsageError(
            f"the project {root} has {size / 2**30:.1f} GiB, of which two copies would be made; leave folders"
            " out with --exclude, or say with --project which folder to copy"
        )
    original = place / "original" / root.name
    fixed = place / "fixed" / root.name
    for target in (original, fixed):
        shutil.copytree(
            root, target, symlinks=False, ignore=_ignoring(root, left_out), ignore_dangling_symlinks=True
        )
    return Project(root, original, fixed, _fix(fixed) if fixes else 0)


def _fix(folder: Path) -> int:
    """Apply all fixes to the files of a folder; how many they were."""
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
